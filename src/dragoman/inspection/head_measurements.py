"""Figures of every head over a corpus: what it looks at, and what the model loses without it."""

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
    """A sentence and its translation: ids without special symbols, and the texts of the tokens."""

    source: list[int]
    target: list[int]
    source_texts: tuple[str, ...]
    target_texts: tuple[str, ...]


class MeasuredPairs(NamedTuple):
    """Pairs to measure heads on, and the number of pairs that were read and left out."""

    pairs: list[Pair]
    left_out: int


def read_measured_pairs(corpus: str, limit: int, fits: Callable[[Sequence[Pair]], Sequence[bool]]) -> MeasuredPairs:
    """Read the first `limit` pairs of a corpus; leave out those with an empty side and those that do not fit.

    corpus  as on the command line: x.tsv, x.jsonl, or a.en,a.de
    fits    says of each pair whether it is short enough for the model (`Translator.fits`)

    Raises CorpusError when it cannot be read, or nothing is left.
    """
    read = list(islice(read_pairs(parse_corpus(corpus)), limit))
    pairs = [pair for pair, short in zip(read, fits(read), strict=True) if short and all(pair)]
    if not pairs:
        raise CorpusError(f"{corpus} has no pairs to measure on")
    return MeasuredPairs(pairs, len(read) - len(pairs))


def measure_heads(
    model: Seq2Seq,
    batches: Sequence[Sequence[IdPair]],
    *,
    on_progress: Callable[[int, int], None],
    right_to_left: bool = False,
) -> HeadMeasurements:
    """Measure every head on pairs in batches of similar lengths.

    on_progress           called after each pass over the pairs, with the number of passes done and of all passes
    right_to_left  see `measure`

    Raises ModelError when the model has no attention.
    """
    tokens = sum(len(pair.target) + 1 for batch in batches for pair in batch)
    sums: dict[Head, list[HeadStatistics]] = {}
    heads: list[Head] = []
    for batch in batches:
        found = capture(model, [pair.source for pair in batch], [pair.target for pair in batch])
        heads = heads_of(model, found[0])
        for pair, captured in zip(batch, found, strict=True):
            for kind in KINDS:
                arrays = getattr(captured, kind)
                if arrays is not None:
                    keys = _keys(pair, kind)
                    for statistics in measure(arrays.weights, kind, keys, right_to_left=right_to_left):
                        sums.setdefault(statistics.head, []).append(statistics)
    if not heads:
        raise ModelError("this model has no attention: there are no heads to measure")
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
            HeadMeasurement(statistics=_mean(some), importance=importance.get(head)) for head, some in sums.items()
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


def _mean(some: Sequence[HeadStatistics]) -> HeadStatistics:
    """The mean over all queries of all sentences."""
    queries = sum(each.queries for each in some)
    means = {
        each.name: sum(getattr(one, each.name) * one.queries for one in some) / queries
        for each in fields(HeadStatistics)
        if each.name not in ("head", "queries")
    }
    return HeadStatistics(head=some[0].head, queries=queries, **means)
