"""Measurements of every head over a corpus: where it attends, and how the loss changes without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import islice
from typing import NamedTuple

from dragoman.attention_page.kinds import KINDS, Head, Kind
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements, HeadStatistics, measure
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.errors import CorpusError, ModelError
from dragoman.inspection.ablation import heads_of
from dragoman.inspection.capture import capture
from dragoman.inspection.heads import heads_off
from dragoman.inspection.rows import target_log_probabilities
from dragoman.models.seq2seq import Seq2Seq


class IdPair(NamedTuple):
    """A source and its target: ids without special symbols, and the texts of the tokens."""

    source: list[int]
    target: list[int]
    source_texts: tuple[str, ...]
    target_texts: tuple[str, ...]


class MeasuredPairs(NamedTuple):
    """Pairs on which heads are measured, and the number of pairs that were read but left out."""

    pairs: list[Pair]
    left_out: int


def read_measured_pairs(corpus: str, limit: int, fits: Callable[[Sequence[Pair]], Sequence[bool]]) -> MeasuredPairs:
    """Read the first `limit` pairs of a corpus; leave out those with an empty side and those that do not fit.

    Args:
        corpus: the corpus, as on the command line: x.tsv, x.jsonl, or a.en,a.de.
        limit: number of pairs to read.
        fits: returns, for each pair, True if it is short enough for the model (`Translator.fits`).

    Raises:
        CorpusError: if the corpus cannot be read, or no pair is left.
    """
    read = list(islice(read_pairs(parse_corpus(corpus)), limit))
    pairs = [pair for pair, is_short in zip(read, fits(read), strict=True) if is_short and all(pair)]
    if not pairs:
        raise CorpusError(
            f"{corpus} has no pairs to measure the heads on: they are empty, or longer than the model's limit"
        )
    return MeasuredPairs(pairs, len(read) - len(pairs))


def measure_heads(
    model: Seq2Seq,
    batches: Sequence[Sequence[IdPair]],
    *,
    on_progress: Callable[[int, int], None],
    right_to_left: bool = False,
) -> HeadMeasurements:
    """Measure every head of a model.

    Args:
        model: the model.
        batches: the pairs, in batches of similar lengths.
        on_progress: called after each pass over the pairs with the number of passes done and the number of all passes.
        right_to_left: True if the model writes the target from its end.

    Returns:
        The measurements of all heads.

    Raises:
        ModelError: if the model has no attention.
    """
    tokens = sum(len(pair.target) + 1 for batch in batches for pair in batch)
    statistics_of: dict[Head, list[HeadStatistics]] = {}
    heads: list[Head] = []
    for batch in batches:
        attention = capture(model, [pair.source for pair in batch], [pair.target for pair in batch])
        heads = heads_of(model, attention[0])
        for pair, captured in zip(batch, attention, strict=True):
            for kind in KINDS:
                arrays = getattr(captured, kind)
                if arrays is not None:
                    keys = _keys(pair, kind)
                    for statistics in measure(arrays.weights, kind, keys, right_to_left=right_to_left):
                        statistics_of.setdefault(statistics.head, []).append(statistics)
    if not heads:
        raise ModelError("this model has no attention, so it has no heads to measure")
    passes = len(heads) + 2
    on_progress(1, passes)
    loss = _loss(model, batches, [], tokens)
    on_progress(2, passes)
    importance: dict[Head, float] = {}
    for done, head in enumerate(heads, 3):
        importance[head] = _loss(model, batches, [head], tokens) - loss
        on_progress(done, passes)
    return HeadMeasurements(
        heads=tuple(
            HeadMeasurement(statistics=_mean(statistics), importance=importance.get(head))
            for head, statistics in statistics_of.items()
        ),
        loss=loss,
        sentences=sum(map(len, batches)),
        target_tokens=tokens,
    )


def _keys(pair: IdPair, kind: Kind) -> tuple[str, ...]:
    return ("<s>", *pair.target_texts) if kind == "decoder_self" else (*pair.source_texts, "</s>")


def _loss(model: Seq2Seq, batches: Sequence[Sequence[IdPair]], off: Sequence[Head], tokens: int) -> float:
    with heads_off(model, [off]):
        total = sum(
            sum(target_log_probabilities(model, [pair.source for pair in batch], [pair.target for pair in batch]))
            for batch in batches
        )
    return -total / tokens


def _mean(statistics: Sequence[HeadStatistics]) -> HeadStatistics:
    """Return the mean of a head's statistics of several sentences, weighted by their numbers of queries."""
    queries = sum(sentence.queries for sentence in statistics)
    means = {
        field.name: sum(getattr(sentence, field.name) * sentence.queries for sentence in statistics) / queries
        for field in fields(HeadStatistics)
        if field.name not in ("head", "queries")
    }
    return HeadStatistics(head=statistics[0].head, queries=queries, **means)
