"""Significance tests of the difference between systems by paired bootstrap resampling (Koehn, 2004).

Many samples of the test set are drawn with replacement, each with as many sentences as the test set, and the metrics of
all systems are computed on the same samples. BLEU and chrF are computed by sacrebleu. Sacrebleu's own test gives the
same samples and intervals, but takes its seed from the environment and reports a significant difference between two
identical systems. `resample` tests any metric that is computed from sums of values per sentence.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from dragoman.errors import SettingsError
from dragoman.evaluation.metrics import check_parallel, check_tokenizer
from dragoman.evaluation.tables import aligned

# Name of the baseline in tables; the parentheses distinguish it from names of files and models.
BASELINE = "(baseline)"
SAMPLES, SEED = 1000, 12345

# Statistics of each sentence [sentences, statistics], or their sums [statistics], from which a metric is computed.
Statistics = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Mean of a value over the bootstrap samples, and the interval that contains 95 % of them.

    Attributes:
        mean: mean over the samples.
        low: lower end of the interval.
        high: upper end of the interval.
    """

    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class BootstrapResult:
    """Result of a significance test for one system and one metric.

    Attributes:
        system: name of the system.
        metric: name of the metric, such as "BLEU" or "chrF2".
        value: value of the metric on the test set.
        resampled: value of the metric on the samples.
        difference: value minus that of the baseline on the samples; None for the baseline.
        p_value: probability that systems of equal quality differ at least this much on a random test set (two-sided);
            None for the baseline.
    """

    system: str
    metric: str
    value: float
    resampled: Estimate
    difference: Estimate | None
    p_value: float | None

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump; the key of `value` is "score"."""
        return {"score" if name == "value" else name: value for name, value in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class Significance:
    """Results of a significance test.

    Attributes:
        results: for each metric, the result of the baseline and then those of the other systems.
        signatures: how each metric was computed, by its name.
        sentences: number of sentences in the test set.
        samples: number of bootstrap samples.
        seed: seed of the samples.
    """

    results: tuple[BootstrapResult, ...]
    signatures: Mapping[str, str]
    sentences: int
    samples: int
    seed: int

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump; the key of `results` is "comparisons"."""
        return {
            "comparisons": [result.to_json() for result in self.results],
            "signatures": dict(self.signatures),
            "sentences": self.sentences,
            "samples": self.samples,
            "seed": self.seed,
        }

    def table(self) -> str:
        """Return a plain-text table with a row for each system and metric, followed by the signatures."""
        rows = [("metric", "system", "value", "95 % interval", "difference", "95 % interval", "p")]
        for result in self.results:
            row = (result.metric, result.system, f"{result.value:.2f}", _interval(result.resampled))
            if result.difference is None or result.p_value is None:
                rows.append((*row, "", "", ""))
            else:
                difference = f"{result.difference.mean:+.2f}"
                rows.append((*row, difference, _interval(result.difference), f"{result.p_value:.3f}"))
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
    """Return a significance test of BLEU and chrF of systems against a baseline.

    The result depends only on the arguments; see `resample` for the method.

    Args:
        references: reference of each source.
        baseline: translations of the baseline.
        others: translations of each other system, by its name.
        tokenize: tokenizer of sacrebleu for BLEU, see `bleu_tokenizer_for`.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        CorpusError: if the numbers of lines differ or are zero.
        SettingsError: if there are no other systems, `samples` < 1, `seed` < 0, or the tokenizer is unknown.

    Example:
        >>> references = ["The light is off.", "The door is open."]
        >>> outputs = ["The light is out.", "The door is open."]
        >>> significance = paired_bootstrap(references, references, {"mine": outputs}, samples=10)
        >>> [result.system for result in significance.results if result.metric == "BLEU"]
        ['(baseline)', 'mine']
    """
    if not others:
        raise SettingsError("give at least one system to compare with the baseline")
    assert BASELINE not in others
    check_tokenizer(tokenize)
    systems = {BASELINE: baseline, **others}
    for name, hypotheses in systems.items():
        check_parallel(f"the hypotheses of {name}", hypotheses, references)

    results: list[BootstrapResult] = []
    signatures: dict[str, str] = {}
    metrics: dict[str, BLEU | CHRF] = {"BLEU": BLEU(tokenize=tokenize), "chrF2": CHRF()}
    for label, metric in metrics.items():
        statistics = {name: _statistics(metric, hypotheses, references) for name, hypotheses in systems.items()}
        results += resample(label, statistics, BASELINE, _value_from_sums(metric), samples=samples, seed=seed)
        # The signature is complete only after a value has been computed.
        signatures[label] = str(metric.get_signature())
    return Significance(
        results=tuple(results),
        signatures=signatures,
        sentences=len(references),
        samples=samples,
        seed=seed,
    )


def resample(
    metric: str,
    systems: Mapping[str, Statistics],
    baseline: str,
    value_from_sums: Callable[[Statistics], float],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> list[BootstrapResult]:
    """Return a significance test of one metric of systems against a baseline.

    The p-value is computed by the shift method (Noreen, 1989; Riezler and Maxwell, 2005): it is the fraction of samples
    in which the difference deviates from its mean over the samples by at least the difference measured on the test set;
    the test set itself is counted as one sample. Equal seeds give equal samples.

    Args:
        metric: name of the metric.
        systems: statistics of each sentence [sentences, statistics] for each system, including the baseline.
        baseline: name of the system that is the baseline.
        value_from_sums: function that computes the metric from the sums of the statistics [statistics].
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        SettingsError: if `samples` < 1 or `seed` < 0.
    """
    if samples < 1 or seed < 0:
        raise SettingsError(f"samples is {samples}, seed is {seed}; expected samples >= 1 and seed >= 0")
    names = [baseline, *(name for name in systems if name != baseline)]
    sentences = len(systems[baseline])
    generator = np.random.default_rng(seed)
    draws = {name: np.empty(samples) for name in names}
    for sample in range(samples):
        drawn = generator.choice(sentences, size=sentences, replace=True)
        # [sentences]: number of times each sentence was drawn
        times = np.bincount(drawn, minlength=sentences)
        for name in names:
            draws[name][sample] = value_from_sums(times @ systems[name])
    values = {name: value_from_sums(systems[name].sum(axis=0)) for name in names}
    results = []
    for name in names:
        difference = p_value = None
        if name != baseline:
            differences = draws[name] - draws[baseline]
            difference = estimate(differences)
            p_value = _p_value(differences, values[name] - values[baseline])
        results.append(
            BootstrapResult(
                system=name,
                metric=metric,
                value=values[name],
                resampled=estimate(draws[name]),
                difference=difference,
                p_value=p_value,
            )
        )
    return results


def percentage(sums: Statistics) -> float:
    """Return 100 a / b for the sums (a, b), or 0 if b is 0."""
    part, whole = sums.tolist()
    return 100 * part / whole if whole else 0.0


def _statistics(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Statistics:
    return np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.int64)


def _value_from_sums(metric: BLEU | CHRF) -> Callable[[Statistics], float]:
    return lambda sums: float(metric._compute_score_from_stats(sums.tolist()).score)


def estimate(draws: NDArray[np.float64]) -> Estimate:
    """Return mean and 95 % interval of the values of a metric on bootstrap samples [samples]."""
    # One of 40 samples is below the interval, and one of 40 is above it.
    ordered = np.sort(draws)
    tail = len(ordered) // 40
    return Estimate(mean=float(ordered.mean()), low=float(ordered[tail]), high=float(ordered[-1 - tail]))


def _p_value(differences: NDArray[np.float64], measured: float) -> float:
    extreme = np.abs(differences - differences.mean()) >= abs(measured)
    return (int(extreme.sum()) + 1) / (len(differences) + 1)


def _interval(estimate: Estimate) -> str:
    return f"{estimate.low:.2f} to {estimate.high:.2f}"
