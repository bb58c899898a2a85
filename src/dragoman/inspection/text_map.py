"""Construction of an `AttentionMap` from a model and one text."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from dragoman.attention_page.data import Candidate, HeadAblation
from dragoman.attention_page.kinds import Head
from dragoman.attention_page.map import AttentionMap
from dragoman.errors import ModelError
from dragoman.inspection.ablation import heads_of
from dragoman.inspection.capture import capture_texts
from dragoman.inspection.recording import TextModel
from dragoman.inspection.text_predictions import can_predict, log_probabilities, predictions_of, total_of
from dragoman.models.language_model import LanguageModel

Texts = Callable[[Sequence[int]], list[str]]
Decode = Callable[[Sequence[Sequence[int]]], list[str]]


def text_attention_map(
    model: TextModel,
    row: Sequence[int],
    text: str,
    texts: Texts,
    decode: Decode,
    *,
    details: bool,
    candidates: int,
    without_heads: bool,
) -> AttentionMap:
    """Return the attention map of one text; see `TextAnalyzer.attention`.

    Args:
        model: the model.
        row: the ids of the text, with special symbols.
        text: the text.
        texts: returns the text of each id.
        decode: returns the text of rows of ids.
        details: see `TextAnalyzer.attention`.
        candidates: see `TextAnalyzer.attention`.
        without_heads: see `TextAnalyzer.attention`.

    Raises:
        ModelError: if the model has no attention.
    """
    [captured] = capture_texts(model, [row], details=details)
    if captured.encoder_self is captured.decoder_self is None:
        raise ModelError("this model has no attention, so there is nothing to show")
    tokens = tuple(texts(row))
    is_causal = isinstance(model, LanguageModel)
    scores = _Scores()
    if can_predict(model):
        heads = heads_of(model, captured) if without_heads else []
        scores = _scores(model, row, heads, texts, decode, candidates)
    return AttentionMap(
        text=text,
        translation=scores.predicted,
        source=() if is_causal else tokens,
        target=tokens if is_causal else (),
        predicted=tokens[1:] if is_causal else tokens[1:-1],
        encoder_self=captured.encoder_self,
        decoder_self=captured.decoder_self,
        encoder_decoder=None,
        log_probability=scores.log_probability,
        candidates=scores.candidates,
        without=scores.without,
        with_all=scores.predicted,
    )


def predict_without(model: TextModel, row: Sequence[int], heads: Collection[Head], decode: Decode) -> tuple[str, float]:
    """Return the most probable token at each position, as text, and the log-probability of the text without heads."""
    predictions = predictions_of(model, row)
    [distributions] = log_probabilities(model, predictions, [heads])
    return decode([distributions.argmax(-1).tolist()])[0], total_of(distributions, predictions.targets)


@dataclass(frozen=True, kw_only=True)
class _Scores:
    """The fields of an `AttentionMap` that need predictions; those of a model without predictions by default."""

    predicted: str = ""
    log_probability: float | None = None
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    without: tuple[HeadAblation, ...] = ()


def _scores(
    model: TextModel, row: Sequence[int], heads: Sequence[Head], texts: Texts, decode: Decode, candidates: int
) -> _Scores:
    predictions = predictions_of(model, row)
    off = [[], *([head] for head in heads)]
    outputs: list[list[int]] = []
    totals: list[float] = []
    shown: tuple[tuple[Candidate, ...], ...] = ()
    for distributions in log_probabilities(model, predictions, off):
        if not totals and candidates:
            shown = _candidates(distributions, texts, candidates)
        outputs.append(distributions.argmax(-1).tolist())
        totals.append(total_of(distributions, predictions.targets))
    predicted, *others = decode(outputs)
    return _Scores(
        predicted=predicted,
        log_probability=totals[0],
        candidates=shown,
        without=tuple(
            HeadAblation(head=head, translation=other, log_probability=total)
            for head, other, total in zip(heads, others, totals[1:], strict=True)
        ),
    )


def _candidates(log_probabilities: Float[Tensor, "P V"], texts: Texts, count: int) -> tuple[tuple[Candidate, ...], ...]:
    """Return the most probable tokens at each place."""
    # [P, V] -> [P, count]
    top = log_probabilities.exp().topk(min(count, log_probabilities.shape[-1]))
    return tuple(
        tuple(Candidate(token=token, probability=p) for token, p in zip(texts(indices), probabilities, strict=True))
        for indices, probabilities in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    )
