"""Translation of lines that are split into segments: search, and joining of the outputs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dragoman.evaluation.alignment import Link
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.text.lines import clean_line
from dragoman.text.segmenting import Segment, first_words, join
from dragoman.text.tokenizer import Tokenizer
from dragoman.translation.results import Alternative, LineProgress, Translation
from dragoman.translation.splitting import SEGMENTS_AT_ONCE, SplitLine
from dragoman.translation.word_probabilities import joined_word_probabilities, word_probabilities

# Returns the hypotheses of each input, best first; at least one each.
Search = Callable[[Sequence[SearchInput]], list[list[Hypothesis]]]
# (source ids, target ids) of several segments -> the links of each
AlignSegments = Callable[[Sequence[list[int]], Sequence[list[int]]], list[list[Link]]]


@dataclass(frozen=True, kw_only=True)
class _TranslatedSegment:
    """A segment of a line and its outputs.

    Attributes:
        source: the text of the segment; "" if no alignment was requested.
        outputs: best first; a copied segment has one.
        copied: number of characters that were copied.
        cut: True if the segment begins or ends inside a sentence.
        truncated: True if the maximum length ended the output.
        tokens: number of target tokens of the best output, the end included; 0 for a copied segment.
        links: alignment links between the words of the segment; () if not requested.
        words: probability of each word of the best output; () if not requested or copied, None if not known.
    """

    source: str
    outputs: Sequence[Alternative]
    copied: int = 0
    cut: bool = False
    truncated: bool = False
    tokens: int = 0
    links: Sequence[Link] = ()
    words: Sequence[float] | None = ()


# Yields the inputs of a search, receives the hypotheses of each, and so on; returns the translation.
LineSteps = Generator[list[SearchInput], list[list[Hypothesis]], Translation]


def translate_split(
    lines: Sequence[SplitLine],
    search: Search,
    tokenizer: Tokenizer,
    align: AlignSegments | None = None,
    on_progress: Callable[[LineProgress], None] | None = None,
) -> Iterator[Translation]:
    """Yield the translation of each line, in order.

    The segments of short lines are searched together. A line of many segments is searched by itself, in batches of
    `SEGMENTS_AT_ONCE`, which bounds the memory whatever the length of the line.

    Args:
        lines: the lines, split into segments.
        search: searches for the outputs of segments.
        tokenizer: the tokenizer of the models.
        align: aligns the words of segments and their best hypotheses; None: translations have no alignment.
        on_progress: called before each search for a line of many segments.
    """
    short = [line for line in lines if line.more is None]
    inputs_of_lines = [_inputs(line.segments, line.prefix) for line in short]
    inputs = [row for line_inputs in inputs_of_lines for row in line_inputs]
    hypotheses = search(inputs)
    results = zip(hypotheses, _aligned(inputs, hypotheses, align), strict=True)
    for line in lines:
        if line.more is None:
            segments = _translated_segments(line.segments, results, tokenizer, with_links=align is not None)
            yield _joined(line, segments, with_links=align is not None)
        else:
            yield _searched(line_steps(line, tokenizer, align, on_progress), search)


def line_steps(
    line: SplitLine,
    tokenizer: Tokenizer,
    align: AlignSegments | None = None,
    on_progress: Callable[[LineProgress], None] | None = None,
    with_words: bool = False,
) -> LineSteps:
    """Return a generator that translates one line, for a caller that searches by itself.

    It yields the inputs of up to `SEGMENTS_AT_ONCE` segments, and receives the hypotheses of each input, best first. A
    line with nothing to translate yields nothing, or an empty list.

    Args:
        line: the line, split into segments.
        tokenizer: the tokenizer of the models.
        align: see `translate_split`.
        on_progress: called before each search.
        with_words: whether to return the probability of each word.
    """
    segments, prefix = line.segments, line.prefix
    translated: list[_TranslatedSegment] = []
    done = characters = 0
    while segments:
        if on_progress is not None:
            on_progress(LineProgress(segments=done, characters=characters, all_characters=len(line.text)))
        inputs = _inputs(segments, prefix)
        hypotheses = yield inputs
        results = zip(hypotheses, _aligned(inputs, hypotheses, align), strict=True)
        translated += _translated_segments(
            segments, results, tokenizer, with_links=align is not None, with_words=with_words
        )
        done += len(inputs)
        characters += sum(segment.size for segment in segments)
        if done:
            prefix = ()
        segments = [] if line.more is None else list(islice(line.more, SEGMENTS_AT_ONCE))
    return _joined(line, translated, with_links=align is not None, with_words=with_words)


def _searched(steps: LineSteps, search: Search) -> Translation:
    try:
        inputs = next(steps)
        while True:
            inputs = steps.send(search(inputs))
    except StopIteration as end:
        translation: Translation = end.value
        return translation


def _inputs(segments: Sequence[Segment], prefix: Sequence[int]) -> list[SearchInput]:
    """Return the inputs of the segments that are not copied; the output of the first begins with the prefix."""
    sources = [segment.ids for segment in segments if segment.ids]
    return [SearchInput(source, [] if number else list(prefix)) for number, source in enumerate(sources)]


def _aligned(
    inputs: Sequence[SearchInput], hypotheses: Sequence[Sequence[Hypothesis]], align: AlignSegments | None
) -> list[list[Link]]:
    """Return the links of each input and its best hypothesis; none if no alignment was requested."""
    if align is None:
        return [[] for _ in inputs]
    return align([row.source for row in inputs], [list(outputs[0].tokens) for outputs in hypotheses])


def _translated_segments(
    segments: Sequence[Segment],
    results: Iterator[tuple[Sequence[Hypothesis], Sequence[Link]]],
    tokenizer: Tokenizer,
    *,
    with_links: bool,
    with_words: bool = False,
) -> list[_TranslatedSegment]:
    """Return segments with their outputs; takes one of the results for each segment that is not copied."""
    return [
        _translated(segment, *next(results), tokenizer, with_source=with_links, with_words=with_words)
        if segment.ids
        else _copied(segment, with_links=with_links)
        for segment in segments
    ]


def _translated(
    segment: Segment,
    outputs: Sequence[Hypothesis],
    links: Sequence[Link],
    tokenizer: Tokenizer,
    *,
    with_source: bool,
    with_words: bool,
) -> _TranslatedSegment:
    texts = tokenizer.decode_target([output.tokens for output in outputs])
    return _TranslatedSegment(
        source=tokenizer.decode_source([segment.ids])[0] if with_source else "",
        outputs=[
            Alternative(text=clean_line(text), log_probability=output.log_probability, score=output.score)
            for text, output in zip(texts, outputs, strict=True)
        ],
        cut=segment.cut,
        truncated=not outputs[0].finished,
        tokens=len(outputs[0].tokens) + 1,
        links=links,
        words=word_probabilities(outputs[0], tokenizer) if with_words else (),
    )


def _copied(segment: Segment, *, with_links: bool) -> _TranslatedSegment:
    words = len(segment.copied.split()) if with_links else 0
    return _TranslatedSegment(
        source=segment.copied,
        outputs=[Alternative(text=segment.copied, log_probability=0.0, score=0.0)],
        copied=len(segment.copied),
        # Each word is linked to itself.
        links=[(word, word) for word in range(words)],
    )


def _joined(
    line: SplitLine, segments: Sequence[_TranslatedSegment], *, with_links: bool, with_words: bool = False
) -> Translation:
    """Return the translation of a line from those of its segments."""
    alternatives = _alternatives(segments)
    best = alternatives[0] if alternatives else Alternative(text="", log_probability=0.0, score=0.0)
    return Translation(
        text=best.text,
        log_probability=best.log_probability,
        score=best.score,
        alternatives=alternatives,
        segments=sum(not segment.copied for segment in segments),
        cut=any(segment.cut for segment in segments),
        truncated=any(segment.truncated for segment in segments),
        invalid_utf8=line.invalid_utf8,
        copied=sum(segment.copied for segment in segments),
        too_long=line.too_long,
        tokens=sum(segment.tokens for segment in segments),
        word_probabilities=joined_word_probabilities(
            best.text, [(segment.outputs[0].text, segment.words) for segment in segments]
        )
        if with_words
        else None,
        alignment=_links(line.text, best.text, segments) if with_links else None,
    )


def _alternatives(segments: Sequence[_TranslatedSegment]) -> tuple[Alternative, ...]:
    """Return the outputs of a line: rank r joins the outputs of rank r of all segments.

    There are as many ranks as every translated segment has, and none if there are no segments.
    """
    copied = {number for number, segment in enumerate(segments) if segment.copied}
    ranks = min((len(segment.outputs) for segment in segments if not segment.copied), default=min(len(segments), 1))
    alternatives = []
    for rank in range(ranks):
        outputs = [segment.outputs[0 if segment.copied else rank] for segment in segments]
        alternatives.append(
            Alternative(
                text=join([output.text for output in outputs], copied),
                log_probability=sum(output.log_probability for output in outputs),
                score=sum(output.score for output in outputs),
            )
        )
    return tuple(alternatives)


def _links(source: str, target: str, segments: Sequence[_TranslatedSegment]) -> tuple[Link, ...]:
    """Return the links of all segments, with words counted from the beginning of the line."""
    first_of_segments = zip(
        first_words(source, [segment.source.strip() for segment in segments]),
        first_words(target, [segment.outputs[0].text.strip() for segment in segments]),
        strict=True,
    )
    links = (
        (first_source + source_word, first_target + target_word)
        for (first_source, first_target), segment in zip(first_of_segments, segments, strict=True)
        for source_word, target_word in segment.links
    )
    # Two segments without a space between them share a word: remove duplicate links.
    return tuple(dict.fromkeys(links))
