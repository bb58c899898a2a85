"""Measurements of every head over a corpus: where it attends, and how the loss changes without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Generic, NamedTuple, TypeVar

from dragoman.attention_page.arrays import CapturedAttention
from dragoman.attention_page.kinds import KINDS, Head, Kind
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements, HeadStatistics, measure
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.errors import CorpusError, ModelError
from dragoman.inspection.ablation import heads_of
from dragoman.inspection.capture import capture, capture_texts
from dragoman.inspection.heads import heads_off
from dragoman.inspection.recording import TextModel
from dragoman.inspection.rows import target_log_probabilities
from dragoman.inspection.text_predictions import can_predict, predictions_of_corpus, target_log_probability
from dragoman.models.decoder_only import DecoderOnly
from dragoman.models.seq2seq import Seq2Seq


class IdPair(NamedTuple):
    """A source and its target: ids without special symbols, and the texts of the tokens."""

    source: list[int]
    target: list[int]
    source_texts: tuple[str, ...]
    target_texts: tuple[str, ...]


class IdText(NamedTuple):
    """A text: its ids with special symbols, and the texts of the tokens."""

    row: list[int]
    texts: tuple[str, ...]


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
    return _measure(
        model,
        batches,
        _Corpus(
            capture=lambda batch: capture(model, [pair.source for pair in batch], [pair.target for pair in batch]),
            keys=_keys_of_text if isinstance(model, DecoderOnly) else _keys,
            log_probability=lambda batch: sum(
                target_log_probabilities(model, [pair.source for pair in batch], [pair.target for pair in batch])
            ),
            tokens=sum(len(pair.target) + 1 for batch in batches for pair in batch),
            is_text=False,
        ),
        on_progress,
        right_to_left=right_to_left,
    )


def measure_heads_on_texts(
    model: TextModel,
    batches: Sequence[Sequence[IdText]],
    *,
    on_progress: Callable[[int, int], None],
) -> HeadMeasurements:
    """Measure every head of a model that reads one text.

    The loss of a language model is that of the next token; that of an encoder is the loss of every seventh token, which
    are masked together.

    Args:
        model: the model.
        batches: the texts, in batches of similar lengths.
        on_progress: called after each pass over the texts with the number of passes done and the number of all passes.

    Raises:
        ModelError: if the model has no attention, or predicts no tokens.
    """
    if not can_predict(model):
        raise ModelError(
            "this encoder predicts no tokens (prediction_head = false): the importance of its heads cannot be measured"
        )
    predictions = {id(batch): predictions_of_corpus(model, [text.row for text in batch]) for batch in batches}
    return _measure(
        model,
        batches,
        _Corpus(
            capture=lambda batch: capture_texts(model, [text.row for text in batch]),
            keys=lambda text, _: text.texts,
            log_probability=lambda batch: target_log_probability(model, predictions[id(batch)]),
            tokens=sum(len(of_batch.targets) for of_batch in predictions.values()),
            is_text=True,
        ),
        on_progress,
    )


Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class _Corpus(Generic[Item]):
    """How a model reads a corpus of pairs or texts.

    Attributes:
        capture: returns the attention for each item of a batch.
        keys: returns the tokens that are attended to in an item.
        log_probability: returns the sum of the log-probabilities of the predicted tokens of a batch.
        tokens: number of predicted tokens of the corpus.
        is_text: see `HeadMeasurements`.
    """

    capture: Callable[[Sequence[Item]], list[CapturedAttention]]
    keys: Callable[[Item, Kind], tuple[str, ...]]
    log_probability: Callable[[Sequence[Item]], float]
    tokens: int
    is_text: bool

    def loss(self, model: Seq2Seq | TextModel, batches: Sequence[Sequence[Item]], off: Sequence[Head]) -> float:
        """Return the loss in nats per token with some heads off."""
        with heads_off(model, [off]):
            return -sum(self.log_probability(batch) for batch in batches) / self.tokens


def _measure(
    model: Seq2Seq | TextModel,
    batches: Sequence[Sequence[Item]],
    corpus: _Corpus[Item],
    on_progress: Callable[[int, int], None],
    *,
    right_to_left: bool = False,
) -> HeadMeasurements:
    statistics_of: dict[Head, list[HeadStatistics]] = {}
    heads: list[Head] = []
    for batch in batches:
        attention = corpus.capture(batch)
        heads = heads_of(model, attention[0])
        for item, captured in zip(batch, attention, strict=True):
            for kind in KINDS:
                arrays = getattr(captured, kind)
                if arrays is not None:
                    keys = corpus.keys(item, kind)
                    for statistics in measure(arrays.weights, kind, keys, right_to_left=right_to_left):
                        statistics_of.setdefault(statistics.head, []).append(statistics)
    if not heads:
        raise ModelError("this model has no attention, so it has no heads to measure")
    passes = len(heads) + 2
    on_progress(1, passes)
    loss = corpus.loss(model, batches, [])
    on_progress(2, passes)
    importance: dict[Head, float] = {}
    for done, head in enumerate(heads, 3):
        importance[head] = corpus.loss(model, batches, [head]) - loss
        on_progress(done, passes)
    return HeadMeasurements(
        heads=tuple(
            HeadMeasurement(statistics=_mean(statistics), importance=importance.get(head))
            for head, statistics in statistics_of.items()
        ),
        loss=loss,
        sentences=sum(map(len, batches)),
        target_tokens=corpus.tokens,
        is_text=corpus.is_text,
    )


def _keys(pair: IdPair, kind: Kind) -> tuple[str, ...]:
    return ("<s>", *pair.target_texts) if kind == "decoder_self" else (*pair.source_texts, "</s>")


def _keys_of_text(pair: IdPair, _: Kind) -> tuple[str, ...]:
    return (*pair.source_texts, "</s>", "<s>", *pair.target_texts)


def _mean(statistics: Sequence[HeadStatistics]) -> HeadStatistics:
    """Return the mean of a head's statistics of several sentences, weighted by their numbers of queries."""
    queries = sum(sentence.queries for sentence in statistics)
    means = {
        field.name: sum(getattr(sentence, field.name) * sentence.queries for sentence in statistics) / queries
        for field in fields(HeadStatistics)
        if field.name not in ("head", "queries")
    }
    return HeadStatistics(head=statistics[0].head, queries=queries, **means)
