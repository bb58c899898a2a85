"""Is one system better than another, or was it luck? Paired bootstrap resampling (Koehn, 2004).

The test set is drawn anew many times, each time as many sentences, with replacement; all systems
are scored on the same draws. sacrebleu has such a test, but takes its seed from the environment
and calls two identical systems significantly different; its draws and intervals are the same as
ours, and its BLEU and chrF are what is computed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.base import Score
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import UserError
from dragoman.evaluation.metrics import check_parallel, check_tokenizer

# No file has this name, which a user may give to a system.
BASELINE = "(baseline)"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure's mean over the draws, and the interval with 95 % of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One system by one metric, against the baseline.

    Attributes:
        system: name of the system.
        metric: "BLEU" or "chrF2".
        score: on the test set itself.
        resampled: the score over the draws.
        difference: the score minus the baseline's over the draws; None for the baseline.
        p_value: how often systems of equal quality would differ as much, by the luck of the
            test set's choice (two-sided); None for the baseline.
    """

    system: str
    metric: str
    score: float
    resampled: Estimate
    difference: Estimate | None
    p_value: float | None


@dataclass(frozen=True, kw_only=True)
class Significance:
    """What `paired_bootstrap` found: for each metric, the baseline, then the others."""

    comparisons: tuple[Comparison, ...]
    signatures: Mapping[str, str]
    sentences: int
    samples: int
    seed: int

    def table(self) -> str:
        """A table in plain text, a row for each system and metric, and sacrebleu's signatures."""
        rows = [("metric", "system", "score", "95 % interval", "difference", "95 % interval", "p")]
        for c in self.comparisons:
            row = (c.metric, c.system, f"{c.score:.2f}", _interval(c.resampled))
            if c.difference is None or c.p_value is None:
                rows.append((*row, "", "", ""))
            else:
                difference = f"{c.difference.mean:+.2f}"
                rows.append((*row, difference, _interval(c.difference), f"{c.p_value:.3f}"))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                # Names to the left, numbers to the right.
                cell.ljust(width) if place < 2 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        lines += [f"{metric}: {signature}" for metric, signature in self.signatures.items()]
        lines.append(
            f"paired bootstrap: {self.sentences} sentences, {self.samples} samples, seed {self.seed}; p two-sided"
        )
        return "\n".join(lines)


def paired_bootstrap(
    references: Sequence[str],
    baseline: Sequence[str],
    others: Mapping[str, Sequence[str]],
    *,
    tokenize: str = "13a",
    samples: int = 1000,
    seed: int = 12345,
) -> Significance:
    """Compare systems, given as {name: hypotheses}, with a baseline, by BLEU and chrF.

    The p-value is that of the shift method (Noreen, 1989; Riezler and Maxwell, 2005): the share of
    draws whose difference is as far from the draws' mean difference as the measured difference is
    from zero, counting the measured one as a draw. A pure function of its arguments.

    Raises UserError when numbers of lines differ, no lines or no other systems are given, samples < 1,
    seed < 0, or the tokenizer is unknown.
    """
    if not others:
        raise UserError("no system to compare with the baseline")
    assert BASELINE not in others
    if samples < 1 or seed < 0:
        raise UserError(f"samples is {samples}, seed is {seed}; needed are samples >= 1, seed >= 0")
    check_tokenizer(tokenize)
    systems = {BASELINE: baseline, **others}
    for name, hypotheses in systems.items():
        check_parallel(f"the hypotheses of {name}", hypotheses, references)

    comparisons: list[Comparison] = []
    signatures: dict[str, str] = {}
    for metric in (BLEU(tokenize=tokenize), CHRF()):
        baseline_score, baseline_draws = 0.0, np.zeros(samples)
        for name, hypotheses in systems.items():
            measured, draws = _resample(metric, hypotheses, references, samples, seed)
            score = measured.score
            difference = p_value = None
            if name == BASELINE:
                baseline_score, baseline_draws = score, draws
            else:
                differences = draws - baseline_draws
                difference = _estimate(differences)
                p_value = _p_value(differences, score - baseline_score)
            comparisons.append(
                Comparison(
                    system=name,
                    metric=measured.name,
                    score=score,
                    resampled=_estimate(draws),
                    difference=difference,
                    p_value=p_value,
                )
            )
            # Complete only once a score has been computed.
            signatures[measured.name] = str(metric.get_signature())
    return Significance(
        comparisons=tuple(comparisons),
        signatures=signatures,
        sentences=len(references),
        samples=samples,
        seed=seed,
    )


def _resample(
    metric: BLEU | CHRF,
    hypotheses: Sequence[str],
    references: Sequence[str],
    samples: int,
    seed: int,
) -> tuple[Score, NDArray[np.float64]]:
    """The score of the whole corpus, and of each draw [samples]; equal seeds give equal draws."""
    # Counts of each sentence [sentences, statistics], which add up to those of any corpus.
    counts = np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.int64)
    measured: Score = metric._compute_score_from_stats(counts.sum(axis=0).tolist())
    generator = np.random.default_rng(seed)
    draws = np.empty(samples)
    for sample in range(samples):
        drawn = generator.choice(len(counts), size=len(counts), replace=True)
        draws[sample] = metric._compute_score_from_stats(counts[drawn].sum(axis=0).tolist()).score
    return measured, draws


def _estimate(draws: NDArray[np.float64]) -> Estimate:
    # One draw in 40 lies below the interval, and one above.
    ordered = np.sort(draws)
    tail = len(ordered) // 40
    return Estimate(mean=float(ordered.mean()), low=float(ordered[tail]), high=float(ordered[-1 - tail]))


def _p_value(differences: NDArray[np.float64], measured: float) -> float:
    as_far = np.abs(differences - differences.mean()) >= abs(measured)
    return (int(as_far.sum()) + 1) / (len(differences) + 1)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.2f} to {estimate.high:.2f}"
