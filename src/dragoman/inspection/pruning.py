"""Pruning: the effect on BLEU of switching off the least important heads together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dragoman.attention_page.kinds import Head
from dragoman.attention_page.statistics import HeadMeasurements
from dragoman.errors import SettingsError
from dragoman.evaluation.metrics import bleu_tokenizer_for, translation_metrics
from dragoman.inspection.heads import heads_off
from dragoman.models.seq2seq import Seq2Seq


@dataclass(frozen=True, kw_only=True)
class Pruned:
    """Result of pruning: BLEU of the translations with all heads (`before`) and without `heads` (`after`)."""

    heads: tuple[Head, ...]
    before: float
    after: float


def heads_to_prune(measurements: HeadMeasurements, count: int) -> list[Head]:
    """Return the `count` least important heads.

    Raises:
        SettingsError: if no head would be left.
    """
    if count >= measurements.removable:
        raise SettingsError(
            f"cannot switch off {count} heads: the model has {measurements.removable}, and one must be left"
        )
    return measurements.least_important(count)


def prune(
    model: Seq2Seq,
    heads: Sequence[Head],
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[list[str]], list[str]],
    *,
    target_language: str | None,
) -> Pruned:
    """Translate a test set with and without some heads, and compute BLEU of both.

    Args:
        model: the model.
        heads: the heads to switch off.
        pairs: the test set.
        translate: returns one translation per line; it must run `model` itself, in torch.
        target_language: language code of the targets, which selects BLEU's tokenizer; see `bleu_tokenizer_for`.
    """
    tokenize = bleu_tokenizer_for(target_language)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]

    def bleu(off: Sequence[Head]) -> float:
        with heads_off(model, [off]):
            outputs = translate(sources)
        return translation_metrics(outputs, references, tokenize=tokenize).bleu

    return Pruned(heads=tuple(heads), before=bleu([]), after=bleu(heads))
