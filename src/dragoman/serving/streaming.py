"""The translation of a text sentence by sentence, each one available before those after it are translated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import sentencex

from dragoman.serving.service import (
    AUTO,
    Detection,
    TextOptions,
    TranslatedSentence,
    TranslatedText,
    TranslationService,
)

# Parts of a text that are translated at the same time: enough to fill a batch, few enough to leave room for others.
PARTS_AT_ONCE = 8


async def stream_text(
    service: TranslationService, text: str, options: TextOptions
) -> AsyncGenerator[TranslatedSentence | TranslatedText, None]:
    """Yield each sentence of a text in order as soon as it and those before it are translated, then the whole text.

    A text in HTML is translated as a whole, because a tag may span sentences. When the iterator is closed, the
    sentences that are not finished are given up.

    Args:
        service: translates texts.
        text: the text.
        options: see `TextOptions`; "auto" is detected once, from the whole text.

    Raises:
        RequestError: see `TranslationService.translate`.
    """
    # Detection takes milliseconds, in which other requests are answered.
    detected = await asyncio.to_thread(_detect, service, text, options.target) if options.source == AUTO else None
    source = detected.language if detected else options.source
    known = replace(options, source=source)
    parts = _parts(text, source, options)
    places = asyncio.Semaphore(PARTS_AT_ONCE)

    async def translate(part: str) -> TranslatedText:
        async with places:
            [translated] = await service.translate([part], known)
        return translated

    tasks = [asyncio.ensure_future(translate(part)) for part in parts]
    finished: list[TranslatedText] = []
    sentences: list[TranslatedSentence] = []
    # White space at the end of a part stands before the first sentence of the next one.
    space = ""
    try:
        for task in tasks:
            part = await task
            finished.append(part)
            for sentence in part.sentences:
                sentences.append(replace(sentence, before=space + sentence.before))
                space = ""
                yield sentences[-1]
            space += part.after
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    yield TranslatedText(
        text="".join(part.text for part in finished),
        alternatives=_join_alternatives(finished),
        source=source,
        detected=detected,
        through=next((part.through for part in finished if part.through), None),
        sentences=tuple(sentences),
        after=space,
    )


def _detect(service: TranslationService, text: str, target: str) -> Detection:
    """Return the most probable language of a text of the target and those that can be translated into it.

    If none of them is probable, it is the most probable of all languages.
    """
    detections = service.detect(text)
    sources = {language.code for language in service.languages() if target in language.targets} | {target}
    return next((detection for detection in detections if detection.language in sources), detections[0])


def _parts(text: str, source: str, options: TextOptions) -> list[str]:
    """Return the parts of a text that are translated separately; joined, they are the text.

    A part is one sentence with the white space after it, and, at the start of the text, before it.
    """
    if options.format == "html":
        return [text]
    parts: list[str] = []
    *lines, last = text.split("\n")
    for line in [*(f"{line}\n" for line in lines), last]:
        pieces = sentencex.segment(source, line) if options.split_sentences else [line]
        # A difference would change the text: then the line stays whole.
        for piece in pieces if "".join(pieces) == line else [line]:
            if parts and not (piece.strip() and parts[-1].strip()):
                parts[-1] += piece
            else:
                parts.append(piece)
    return parts or [""]


def _join_alternatives(parts: Sequence[TranslatedText]) -> tuple[str, ...]:
    """Return alternatives of a whole text: the first has the first alternative of each part that has one, and so on."""
    count = max((len(part.alternatives) for part in parts), default=0)
    return tuple(
        "".join(part.alternatives[n] if n < len(part.alternatives) else part.text for part in parts)
        for n in range(count)
    )
