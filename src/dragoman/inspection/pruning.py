"""What translations lose when the least important heads are switched off together."""

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
    """BLEU of a model's translations with all heads (before), and without `heads` (after)."""

    heads: tuple[Head, ...]
    before: float
    after: float


def heads_to_prune(study: HeadMeasurements, count: int) -> list[Head]:
    """Return the `count` least important heads of a study.

    Raises SettingsError when no head would be left.
    """
    if count >= study.removable:
        raise SettingsError(f"the model has {study.removable} heads, and one must be left")
    return study.least_important(count)


def prune(
    model: Seq2Seq,
    heads: Sequence[Head],
    pairs: Sequence[tuple[str, str]],
    translate: Callable[[list[str]], list[str]],
    *,
    target_language: str | None,
) -> Pruned:
    """Translate the sources of `pairs` with and without `heads`, and score both against the targets.

    translate        gives one translation for each line; computed in torch, by `model` itself
    target_language  decides how BLEU splits words; see `bleu_tokenizer_for`
    """
    tokenize = bleu_tokenizer_for(target_language)
    sources, references = [source for source, _ in pairs], [target for _, target in pairs]

    def bleu(off: Sequence[Head]) -> float:
        with heads_off(model, [off]):
            outputs = translate(sources)
        return translation_metrics(outputs, references, tokenize=tokenize).bleu

    return Pruned(heads=tuple(heads), before=bleu([]), after=bleu(heads))
