"""Is one system better than another, or was it luck? Paired bootstrap resampling (Koehn, 2004).

The test set is drawn anew many times, each time as many sentences, with replacement; all systems
are scored on the same draws. sacrebleu has such a test, but takes its seed from the environment
and calls two identical systems significantly different; its draws and intervals are the same as
ours, and its BLEU and chrF are what is computed here. `resample` does the same with any figure that
is computed from counts of sentences that add up.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import SettingsError
from dragoman.evaluation.metrics import check_parallel, check_tokenizer
from dragoman.evaluation.tables import aligned

# No file has this name, which a user may give to a system.
BASELINE = "(baseline)"
SAMPLES, SEED = 1000, 12345

# What is counted of each sentence, [sentences, statistics]; its sums give a corpus its score.
Statistics = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure's mean over the draws, and the interval with 95 % of them."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BootstrapResult:
    """One system by one metric, against the baseline.

    Attributes:
        system: name of the system.
        metric: "BLEU", "chrF2" and so on.
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
    """What a paired bootstrap found: for each metric, the baseline, then the others."""

    comparisons: tuple[BootstrapResult, ...]
    signatures: Mapping[str, str]
    sentences: int
    samples: int
    seed: int

    def table(self) -> str:
        """A table in plain text, a row for each system and metric, and the signatures."""
        rows = [("metric", "system", "score", "95 % interval", "difference", "95 % interval", "p")]
        for c in self.comparisons:
            row = (c.metric, c.system, f"{c.score:.2f}", _interval(c.resampled))
            if c.difference is None or c.p_value is None:
                rows.append((*row, "", "", ""))
            else:
                difference = f"{c.difference.mean:+.2f}"
                rows.append((*row, difference, _interval(c.difference), f"{c.p_value:.3f}"))
        lines = [aligned(rows, names=2)]
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
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Significance:
    """Compare systems, given as {name: hypotheses}, with a baseline, by BLEU and chrF.

    A pure function of its arguments; see `resample`.

    Raises CorpusError when numbers of lines differ or no lines are given, SettingsError when no other systems are
    given, samples < 1, seed < 0, or the tokenizer is unknown.
    """
    if not others:
        raise SettingsError("no system to compare with the baseline")
    assert BASELINE not in others
    check_tokenizer(tokenize)
    systems = {BASELINE: baseline, **others}
    for name, hypotheses in systems.items():
        check_parallel(f"the hypotheses of {name}", hypotheses, references)

    comparisons: list[BootstrapResult] = []
    signatures: dict[str, str] = {}
    metrics: dict[str, BLEU | CHRF] = {"BLEU": BLEU(tokenize=tokenize), "chrF2": CHRF()}
    for label, metric in metrics.items():
        statistics = {name: _statistics(metric, hypotheses, references) for name, hypotheses in systems.items()}
        comparisons += resample(label, statistics, BASELINE, _score_of(metric), samples=samples, seed=seed)
        # Complete only once a score has been computed.
        signatures[label] = str(metric.get_signature())
    return Significance(
        comparisons=tuple(comparisons),
        signatures=signatures,
        sentences=len(references),
        samples=samples,
        seed=seed,
    )


def resample(
    metric: str,
    systems: Mapping[str, Statistics],
    baseline: str,
    score: Callable[[Statistics], float],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> list[BootstrapResult]:
    """Compare systems, given as {name: statistics of each sentence}, with the one named `baseline`.

    `score` gives a corpus' score from the sums [statistics] over its sentences. Equal seeds give equal draws.

    The p-value is that of the shift method (Noreen, 1989; Riezler and Maxwell, 2005): the share of
    draws whose difference is as far from the draws' mean difference as the measured difference is
    from zero, counting the measured one as a draw.

    Raises SettingsError when samples < 1 or seed < 0.
    """
    if samples < 1 or seed < 0:
        raise SettingsError(f"samples is {samples}, seed is {seed}; needed are samples >= 1, seed >= 0")
    names = [baseline, *(name for name in systems if name != baseline)]
    sentences = len(systems[baseline])
    generator = np.random.default_rng(seed)
    draws = {name: np.empty(samples) for name in names}
    for sample in range(samples):
        drawn = generator.choice(sentences, size=sentences, replace=True)
        # [sentences]: how often each was drawn
        times = np.bincount(drawn, minlength=sentences)
        for name in names:
            draws[name][sample] = score(times @ systems[name])
    scores = {name: score(systems[name].sum(axis=0)) for name in names}
    comparisons = []
    for name in names:
        difference = p_value = None
        if name != baseline:
            differences = draws[name] - draws[baseline]
            difference = _estimate(differences)
            p_value = _p_value(differences, scores[name] - scores[baseline])
        comparisons.append(
            BootstrapResult(
                system=name,
                metric=metric,
                score=scores[name],
                resampled=_estimate(draws[name]),
                difference=difference,
                p_value=p_value,
            )
        )
    return comparisons


def percentage(sums: Statistics) -> float:
    """100 a / b of the sums (a, b); 0 for a draw in which nothing is counted."""
    part, whole = sums.tolist()
    return 100 * part / whole if whole else 0.0


def _statistics(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.int64)


def _score_of(metric: BLEU | CHRF) -> Callable[[Statistics], float]:
    return lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score)


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
