"""`TextRequest`: the translation of one text, as a whole or sentence by sentence."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from dragoman.serving.lines import LineOptions, LineTranslator, Pair
from dragoman.serving.texts.alternatives import best_combinations
from dragoman.serving.texts.guard import translate_guarded
from dragoman.serving.texts.pieces import Piece, SplitText
from dragoman.serving.texts.text_formats import split_text
from dragoman.serving.texts.translated import Detection, Guarded, TextOptions, TranslatedSentence, TranslatedText
from dragoman.translation.results import Translation

BEAM = 5
# Sentences of a request that are translated at the same time: enough for batches, few enough that these stay short for
# the other requests.
AT_ONCE = 32
# Sentences of a stream that are translated at the same time: enough for a batch, few enough that the first are early.
# Those that are finished before the first of them count for `STREAMED_AHEAD`.
STREAMED_AT_ONCE, STREAMED_AHEAD = 8, 32
# A text of this length or less is computed within a millisecond; to start a thread takes longer on a busy machine.
SHORT_CHARACTERS = 500

Result = TypeVar("Result")


@dataclass(frozen=True, kw_only=True)
class TextRequest:
    """The translation of one text.

    Attributes:
        lines: translates lines.
        text: the text, without lone surrogates.
        options: how it is translated.
        source: its language.
        detected: its language as detected; None if the client gave it.
        route: the pairs of languages, one after the other; none if the text is in the target language.
        group: see `LineOptions`.
    """

    lines: LineTranslator
    text: str
    options: TextOptions
    source: str
    detected: Detection | None
    route: Sequence[Pair]
    group: int

    async def stream(self) -> AsyncGenerator[TranslatedSentence | TranslatedText, None]:
        """Yield each sentence when it and those before it are translated, and then what `translate` returns."""
        split = await self._split()
        places = asyncio.Semaphore(STREAMED_AT_ONCE)

        async def translated(piece: Piece) -> TranslatedSentence:
            async with places:
                return await self._sentence(piece)

        pieces = iter(split.pieces)
        tasks: deque[asyncio.Task[TranslatedSentence]] = deque()
        sentences: list[TranslatedSentence] = []
        try:
            while True:
                ahead = islice(pieces, STREAMED_AHEAD - len(tasks))
                tasks.extend(asyncio.create_task(translated(piece)) for piece in ahead)
                if not tasks:
                    break
                sentences.append(_placed(split, sentences, await tasks[0]))
                tasks.popleft()
                yield sentences[-1]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        yield await self._whole(split, sentences)

    async def _split(self) -> SplitText:
        if not self.route or not self.text.strip():
            return SplitText([], self.text)
        return await self._computed(partial(split_text, self.text, self.source, self.options))

    async def _computed(self, compute: Callable[[], Result]) -> Result:
        """Return a result that takes long, such as the parts of a text with tags, without delaying other requests."""
        return compute() if len(self.text) <= SHORT_CHARACTERS else await asyncio.to_thread(compute)

    async def _sentence(self, piece: Piece, prefix: str = "") -> TranslatedSentence:
        """Translate one sentence; links through a third language are links of both steps put together.

        Args:
            piece: the sentence.
            prefix: text with which its translation begins.
        """
        count = 1 + self.options.alternatives
        required = self.options.alignment
        # The whole beam, since outputs of different tokens can have the same text.
        beam = max(BEAM, count)
        last = LineOptions(
            beam=beam,
            n_best=beam if count > 1 else 1,
            alignment=required or piece.needs_alignment,
            alignment_required=required,
            prefix=prefix,
            words=self.options.words,
            group=self.group,
        )
        guarded: Guarded = ""
        translation: Translation | None = None
        for number, pair in enumerate(self.route):
            options = last if number == len(self.route) - 1 else replace(last, n_best=1, prefix="")
            previous = translation
            line = previous.text if previous else piece.source
            translation, did = await translate_guarded(self.lines, pair, line, options)
            if did == "source":
                # The source, rather than a text in the third language.
                translation = replace(translation, text=piece.source, alternatives=(), copied=len(piece.source))
                guarded = "source"
                break
            guarded = did or guarded
            if previous:
                translation = _put_together(previous, translation)
        assert translation is not None
        return TranslatedSentence(source=piece.source, translation=translation, before=piece.before, guarded=guarded)

    async def _whole(self, split: SplitText, sentences: Sequence[TranslatedSentence]) -> TranslatedText:
        translations = [sentence.translation for sentence in sentences]
        text, *alternatives = await self._computed(partial(self._texts, split, translations))
        return TranslatedText(
            text=text,
            alternatives=tuple(alternatives),
            source=self.source,
            detected=self.detected,
            through=self.route[0][1] if len(self.route) > 1 else None,
            sentences=tuple(sentences),
            after=split.after,
        )

    def _texts(self, split: SplitText, translations: Sequence[Translation]) -> list[str]:
        """Return the best text and the alternatives."""
        outputs: list[list[str]] = []
        costs: list[list[float]] = []
        for piece, translation in zip(split.pieces, translations, strict=True):
            scores = {translation.text: translation.score}
            for alternative in translation.alternatives:
                scores.setdefault(alternative.text, alternative.score)
            # Links are those of the best output.
            links = translation.alignment
            outputs.append([piece.rendered(text, links if text == translation.text else None) for text in scores])
            cost = 0.0
            costs.append([cost := max(cost, translation.score - score) for score in scores.values()])

        def text_of(ranks: dict[int, int]) -> str:
            return split.assembled([each[ranks.get(index, 0)] for index, each in enumerate(outputs)])

        return best_combinations(costs, text_of, self.options.alternatives)


async def translate_texts(requests: Sequence[TextRequest]) -> list[TranslatedText]:
    """Return the translation of each text; the first sentence that fails ends all.

    At most `AT_ONCE` sentences are translated at the same time, so that a request with thousands of them neither
    occupies the server nor takes long to give up.
    """
    splits = [await request._split() for request in requests]
    results: list[list[TranslatedSentence | None]] = [[None] * len(split.pieces) for split in splits]
    work = (
        (request, result, number, piece)
        for request, split, result in zip(requests, splits, results, strict=True)
        for number, piece in enumerate(split.pieces)
    )

    async def translate_next() -> None:
        for request, result, number, piece in work:
            result[number] = await request._sentence(piece, "" if number else request.options.prefix)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, sum(map(len, results)))):
                group.create_task(translate_next())
    except BaseExceptionGroup as errors:
        raise _first_error(errors) from None
    translated = []
    for request, split, result in zip(requests, splits, results, strict=True):
        sentences = [sentence for sentence in result if sentence is not None]
        translated.append(await request._whole(split, await request._computed(partial(_all_placed, split, sentences))))
    return translated


def _put_together(first: Translation, second: Translation) -> Translation:
    """Return the second of two steps, with links to the source, and with the flags of both."""
    links = None
    if first.alignment is not None and second.alignment is not None:
        links = tuple(
            sorted(
                {(word, target) for word, mid in first.alignment for other, target in second.alignment if mid == other}
            )
        )
    return replace(
        second,
        alignment=links,
        truncated=first.truncated or second.truncated,
        cut=first.cut or second.cut,
        # Those of the second step hold for texts of people, not for outputs of the first.
        confidence=None,
        word_probabilities=None,
    )


def _placed(split: SplitText, before: Sequence[TranslatedSentence], sentence: TranslatedSentence) -> TranslatedSentence:
    """Return the sentence that follows others, with what stands between it and the last of them."""
    previous = before[-1].translation.text if before else ""
    return replace(sentence, before=split.gap(len(before), previous, sentence.translation.text))


def _all_placed(split: SplitText, sentences: Sequence[TranslatedSentence]) -> list[TranslatedSentence]:
    placed: list[TranslatedSentence] = []
    for sentence in sentences:
        placed.append(_placed(split, placed, sentence))
    return placed


def _first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group of tasks."""
    error: BaseException = errors
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
