"""Metrics of sequences of symbols against references: error rates and accuracies, overall and by source length.

Symbols are separated by white space: letters to copy, digits of a sum, phonemes. For pronunciations, the symbol error
rate is the phoneme error rate (PER) and the sequence error rate is the word error rate (WER).
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from dragoman.errors import SettingsError
from dragoman.evaluation.references import References, check_references, group_references, number_of_references
from dragoman.evaluation.significance import SAMPLES, SEED, BootstrapResult, Significance, percentage, resample
from dragoman.evaluation.tables import aligned

# Maximum number of rows of the table by length, if no bounds are given.
ROWS = 4


class Counts(NamedTuple):
    """Counts for an output o and its nearest reference r; the counts of several outputs are added.

    The nearest reference is the one with the fewest edits; of several such references the longest, and then the first.

    Attributes:
        edits: minimum number of insertions, deletions and substitutions that turn o into r (Levenshtein, 1966).
        symbols: |r|.
        matching: number of positions i <= min(|o|, |r|) with o_i = r_i.
        positions: max(|o|, |r|); so each missing or additional symbol is a wrong position.
        wrong: 1 if o equals no reference, else 0.
        sequences: 1.
    """

    edits: int
    symbols: int
    matching: int
    positions: int
    wrong: int
    sequences: int = 1


def count_errors(output: str, references: References) -> Counts:
    """Return the counts for an output and its references, of which there is at least one.

    Example:
        >>> count_errors("F AO R", ["F AO R", "F OW R"]).edits
        0
    """
    o = output.split()
    candidates = [reference.split() for reference in references]
    edits, _, nearest = min((Levenshtein.distance(o, r), -len(r), index) for index, r in enumerate(candidates))
    r = candidates[nearest]
    return Counts(
        edits=edits,
        symbols=len(r),
        matching=sum(symbol == expected for symbol, expected in zip(o, r, strict=False)),
        positions=max(len(o), len(r)),
        # If any reference equals the output, the nearest one does.
        wrong=int(edits > 0),
    )


@dataclass(frozen=True, kw_only=True)
class ErrorRates:
    """Error rates and accuracies of outputs, in per cent; see `Counts` for the terms.

    Attributes:
        symbol_error_rate: edits per 100 symbols of the nearest references; lower is better. It exceeds 100 if outputs
            are much too long. None if all nearest references are empty.
        sequence_error_rate: percentage of outputs that equal none of their references; lower is better.
        symbol_accuracy: percentage of positions at which output and nearest reference have the same symbol; higher is
            better. Missing and additional symbols are wrong positions; after an additional symbol at the beginning,
            all positions are usually wrong. None if all outputs and references are empty.
        sequence_accuracy: 100 - sequence_error_rate.
        sequences: number of outputs.
        symbols: number of symbols of the nearest references.
    """

    symbol_error_rate: float | None
    sequence_error_rate: float
    symbol_accuracy: float | None
    sequence_accuracy: float
    sequences: int
    symbols: int

    @classmethod
    def from_counts(cls, counts: NDArray[np.int64]) -> "ErrorRates":
        """Return the rates of N >= 1 outputs whose `Counts` are the rows of `counts` [N, 6]."""
        total = Counts(*counts.sum(axis=0).tolist())
        wrong = 100 * total.wrong / total.sequences
        return cls(
            symbol_error_rate=100 * total.edits / total.symbols if total.symbols else None,
            sequence_error_rate=wrong,
            symbol_accuracy=100 * total.matching / total.positions if total.positions else None,
            sequence_accuracy=100 - wrong,
            sequences=total.sequences,
            symbols=total.symbols,
        )


@dataclass(frozen=True, kw_only=True)
class LengthGroup:
    """Rates of the outputs whose sources have `shortest` to `longest` symbols, both inclusive."""

    shortest: int
    longest: int
    rates: ErrorRates

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return {"shortest": self.shortest, "longest": self.longest, **asdict(self.rates)}


@dataclass(frozen=True, kw_only=True)
class SymbolMetrics:
    """Error rates of the outputs for a test set; a `Report`.

    Attributes:
        rates: rates of all outputs.
        by_length: rates by length of the source.
        signature: how the rates were computed.
    """

    rates: ErrorRates
    by_length: tuple[LengthGroup, ...]
    signature: str

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return {
            **asdict(self.rates),
            "by_length": [group.to_json() for group in self.by_length],
            "signatures": {"symbols": self.signature},
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """Return name, value, and how it was computed."""
        rates = self.rates
        return [
            ("symbol error rate", f"{_formatted(rates.symbol_error_rate)} %", self.signature),
            ("sequence error rate", f"{_formatted(rates.sequence_error_rate)} %", "outputs that equal no reference"),
            ("symbol accuracy", f"{_formatted(rates.symbol_accuracy)} %", "position by position"),
            ("sequence accuracy", f"{_formatted(rates.sequence_accuracy)} %", ""),
        ]

    def details(self) -> str:
        """Return a plain-text table with a row for each group of source lengths."""
        header = ("source symbols", "sequences", "symbol errors", "symbol accuracy", "sequence accuracy")
        rows = [
            (
                f"{group.shortest:,} to {group.longest:,}",
                f"{group.rates.sequences:,}",
                f"{_formatted(group.rates.symbol_error_rate)} %",
                f"{_formatted(group.rates.symbol_accuracy)} %",
                f"{_formatted(group.rates.sequence_accuracy)} %",
            )
            for group in self.by_length
        ]
        return aligned([header, *rows], names=1)


def symbol_metrics(
    outputs: Sequence[str],
    references: Sequence[References],
    sources: Sequence[str],
    *,
    length_bounds: Sequence[int] = (),
) -> SymbolMetrics:
    """Return the error rates of outputs, each compared with the nearest of its references.

    Args:
        outputs: outputs, whose symbols are separated by white space.
        references: references of each output.
        sources: source of each output; only its number of symbols matters.
        length_bounds: largest source length in each row of the table by length, in symbols; longer sources are in an
            additional row. If empty, each bound is twice the previous one, see `doubling_bounds`.

    Raises:
        CorpusError: if the numbers of outputs and references differ or are zero.
        SettingsError: if the bounds are not increasing or not at least 1.

    Example:
        >>> metrics = symbol_metrics(["1 2 3", "4 4"], [["1 2 3"], ["4 5"]], ["3 2 1", "5 4"])
        >>> metrics.rates.symbol_error_rate, metrics.rates.sequence_accuracy
        (20.0, 50.0)
    """
    check_references("the outputs", outputs, references)
    assert len(sources) == len(outputs)
    check_length_bounds(length_bounds)
    counts = _count(outputs, references)
    lengths = np.array([len(source.split()) for source in sources])
    bounds = [*(length_bounds or doubling_bounds(lengths.tolist())), int(lengths.max())]
    groups = []
    for above, last in pairwise([-1, *bounds]):
        inside = (above < lengths) & (lengths <= last)
        if inside.any():
            groups.append(
                LengthGroup(
                    shortest=max(above + 1, int(lengths.min())),
                    longest=min(last, int(lengths.max())),
                    rates=ErrorRates.from_counts(counts[inside]),
                )
            )
    return SymbolMetrics(
        rates=ErrorRates.from_counts(counts),
        by_length=tuple(groups),
        signature=_signature(number_of_references(references)),
    )


def exact_match(outputs: Sequence[str], pairs: Sequence[tuple[str, str]]) -> float:
    """Return the percentage of outputs that equal a reference of their source, ignoring differences in white space.

    Args:
        outputs: output for the source of each pair.
        pairs: pairs of a source and a reference. Several pairs with one source are its several references.
    """
    assert len(outputs) == len(pairs) > 0
    references = group_references(pairs)
    correct = sum(
        any(output.split() == reference.split() for reference in references[source])
        for output, (source, _) in zip(outputs, pairs, strict=True)
    )
    return 100 * correct / len(outputs)


def check_length_bounds(length_bounds: Sequence[int]) -> None:
    """Raise SettingsError unless the bounds are increasing and at least 1."""
    if any(bound < 1 for bound in length_bounds) or any(a >= b for a, b in pairwise(length_bounds)):
        raise SettingsError(f"length bounds must be increasing and at least 1, got {' '.join(map(str, length_bounds))}")


def doubling_bounds(lengths: Sequence[int]) -> list[int]:
    """Return at most four bounds for a table by length, each about half of the next.

    The last bound is the smallest number of the form 1, 2, 4 or 8 times a power of ten that is not less than the
    largest length.

    Example:
        >>> doubling_bounds([3, 397])
        [50, 100, 200, 400]
    """
    longest = max(lengths)
    power = 1
    while 10 * power < longest:
        power *= 10
    bound = next(factor * power for factor in (1, 2, 4, 8, 10) if factor * power >= longest)
    bounds = [bound]
    while len(bounds) < ROWS and bounds[0] > 1:
        bounds.insert(0, bounds[0] // 2)
    return bounds


def compare_symbols(
    references: Sequence[References],
    baseline: str,
    systems: Mapping[str, Sequence[str]],
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
) -> Significance:
    """Return a paired bootstrap test of the error rates of systems against those of a baseline.

    Args:
        references: references of each source.
        baseline: name of the system that is the baseline.
        systems: outputs of each system by its name, including the baseline.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        CorpusError: if the numbers of outputs and references differ or are zero.
        SettingsError: see `resample`.
    """
    for name, outputs in systems.items():
        check_references(f"the outputs of {name}", outputs, references)
    counts = {name: _count(outputs, references) for name, outputs in systems.items()}
    columns = {
        "symbol error rate": ["edits", "symbols"],
        "sequence error rate": ["wrong", "sequences"],
        "symbol accuracy": ["matching", "positions"],
    }
    results: list[BootstrapResult] = []
    for metric, names in columns.items():
        indices = [Counts._fields.index(name) for name in names]
        statistics = {name: table[:, indices] for name, table in counts.items()}
        results += resample(metric, statistics, baseline, percentage, samples=samples, seed=seed)
    return Significance(
        results=tuple(results),
        signatures={"symbols": _signature(number_of_references(references))},
        sentences=len(references),
        samples=samples,
        seed=seed,
    )


def _count(outputs: Sequence[str], references: Sequence[References]) -> NDArray[np.int64]:
    """Return the `Counts` of each output [N, 6]."""
    return np.array([count_errors(output, group) for output, group in zip(outputs, references, strict=True)])


def _signature(references: str) -> str:
    return f"nrefs:{references}|case:mixed|tok:space|ref:nearest|lib:rapidfuzz|version:{version('rapidfuzz')}"


def _formatted(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2f}"
