"""Calibration: how far probabilities are from outcomes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dragoman.evaluation.significance import SAMPLES, SEED, Estimate, estimate
from dragoman.evaluation.tables import aligned

# Probabilities are compared with outcomes in this number of intervals of equal width.
BINS = 10

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Bin:
    """Probabilities of one interval, and their outcomes.

    Attributes:
        predicted: mean probability.
        observed: share of the outcomes that are True.
        count: number of outcomes.
    """

    predicted: float
    observed: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """How far probabilities are from outcomes.

    Attributes:
        bins: the intervals that have outcomes, by probability.
        error: expected calibration error: mean of |predicted - observed| over the bins, weighted by their counts.
        error_samples: the same on bootstrap samples of the outcomes. An error is never negative, so that the mean over
            samples is above the error of few outcomes.
        brier: Brier score: mean squared difference of probability and outcome.
        base_rate: share of all outcomes that are True.
    """

    bins: tuple[Bin, ...]
    error: float
    error_samples: Estimate
    brier: float
    base_rate: float

    @property
    def count(self) -> int:
        """Number of outcomes."""
        return sum(interval.count for interval in self.bins)

    def table(self) -> str:
        """Return predicted and observed percentage, and count, of each bin as columns of plain text."""
        rows = [
            (f"{100 * interval.predicted:.1f}", f"{100 * interval.observed:.1f}", f"{interval.count:,}")
            for interval in self.bins
        ]
        return aligned([("predicted %", "observed %", "lines"), *rows], names=0)

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return {**asdict(self), "count": self.count}


def reliability(
    probabilities: Sequence[float], outcomes: Sequence[bool], *, samples: int = SAMPLES, seed: int = SEED
) -> Reliability:
    """Compare probabilities with outcomes.

    Args:
        probabilities: probability of each outcome, 0 to 1.
        outcomes: the outcomes, of which there is at least one.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Example:
        >>> result = reliability([0.05, 0.05, 0.95, 0.95], [False, False, True, True])
        >>> round(result.error, 2), round(result.brier, 4)
        (0.05, 0.0025)
    """
    p, true = np.asarray(probabilities, dtype=np.float64), np.asarray(outcomes, dtype=np.float64)
    assert len(p) == len(true) > 0
    assert bool(((p >= 0) & (p <= 1)).all())
    bins = np.minimum((p * BINS).astype(int), BINS - 1)
    draws = np.empty(samples)
    generator = np.random.default_rng(seed)
    for sample in range(samples):
        drawn = generator.integers(len(p), size=len(p))
        draws[sample] = _error(p[drawn], true[drawn], bins[drawn])
    counts = np.bincount(bins, minlength=BINS)
    return Reliability(
        bins=tuple(
            Bin(predicted=float(p[bins == each].mean()), observed=float(true[bins == each].mean()), count=int(count))
            for each, count in enumerate(counts)
            if count
        ),
        error=_error(p, true, bins),
        error_samples=estimate(draws),
        brier=float(((p - true) ** 2).mean()),
        base_rate=float(true.mean()),
    )


def _error(p: Vector, true: Vector, bins: NDArray[np.int64]) -> float:
    # |mean p - mean outcome| times the share of a bin is |sum of p - outcome| / number of outcomes.
    return float(np.abs(np.bincount(bins, weights=p - true, minlength=BINS)).sum() / len(p))


def draw_reliability(results: Mapping[str, Reliability], form: Literal["png", "svg"]) -> bytes:
    """Draw reliability diagrams: the observed share of each bin over its mean probability.

    Args:
        results: results by their names.
        form: format of the picture.
    """
    from matplotlib.figure import Figure

    # Imported here, because importing matplotlib takes a second.
    from dragoman.rendering import render

    figure = Figure(figsize=(5.5, 5.5), layout="constrained", dpi=150)
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.6", linestyle="--", linewidth=1, label="calibrated")
    for name, result in results.items():
        predicted = [interval.predicted for interval in result.bins]
        observed = [interval.observed for interval in result.bins]
        [line] = axes.plot(predicted, observed, linewidth=1)
        axes.scatter(
            predicted,
            observed,
            s=[20 + 180 * interval.count / result.count for interval in result.bins],
            color=line.get_color(),
            # A dollar sign would begin a formula.
            label=f"{name}: calibration error {100 * result.error:.1f} %".replace("$", r"\$"),
        )
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="predicted probability of a good line", ylabel="share of good lines")
    axes.set_aspect("equal")
    axes.legend(loc="upper left")
    return render(figure, form)
