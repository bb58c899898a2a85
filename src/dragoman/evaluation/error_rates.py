"""How far sequences of symbols are from their references: error rates, accuracies, and both by length.

Symbols are what white space separates: letters to copy, digits of a sum, phonemes. For pronunciations the symbol error
rate is the phoneme error rate (PER) and the sequence error rate the word error rate (WER).
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

# Rows of the table by length, when nobody says where to cut.
ROWS = 4


class Counts(NamedTuple):
    """What is counted of one output o and its nearest reference r; counts of outputs add up.

    The nearest reference is the one with the fewest edits; among equals the longest, then the first.

    edits      insertions, deletions and substitutions that turn o into r, at least (Levenshtein, 1966)
    symbols    |r|
    matching   positions i <= min(|o|, |r|) with o_i = r_i
    positions  max(|o|, |r|): a symbol that is missing and one too many make a wrong position each
    wrong      1 if o equals no reference, else 0
    sequences  1
    """

    edits: int
    symbols: int
    matching: int
    positions: int
    wrong: int
    sequences: int = 1


def count_errors(output: str, references: References) -> Counts:
    """Compare an output with its references, of which there is at least one."""
    o = output.split()
    candidates = [reference.split() for reference in references]
    edits, _, nearest = min((Levenshtein.distance(o, r), -len(r), place) for place, r in enumerate(candidates))
    r = candidates[nearest]
    return Counts(
        edits=edits,
        symbols=len(r),
        matching=sum(said == wanted for said, wanted in zip(o, r, strict=False)),
        positions=max(len(o), len(r)),
        # The nearest reference is equal if any is.
        wrong=int(edits > 0),
    )


@dataclass(frozen=True, kw_only=True)
class ErrorRates:
    """Rates over outputs, in per cent; None where there is nothing to divide by.

    Attributes:
        symbol_error_rate: edits per 100 symbols of the nearest references (see `Counts`), lower is better; above 100
            when an output is much too long. None if all these references are empty.
        sequence_error_rate: the share of outputs that equal none of their references, lower is better.
        symbol_accuracy: position by position, the share at which output and nearest reference have the same symbol,
            higher is better. Positions run to the end of the longer of the two, so that what is missing or too much
            counts as wrong; one symbol too many at the beginning makes all that follow wrong. None if all outputs and
            references are empty.
        sequence_accuracy: 100 - sequence_error_rate.
        sequences: outputs that were counted.
        symbols: symbols of the nearest references.
    """

    symbol_error_rate: float | None
    sequence_error_rate: float
    symbol_accuracy: float | None
    sequence_accuracy: float
    sequences: int
    symbols: int

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> "ErrorRates":
        """The rates over outputs whose `Counts` are the rows of [N, 6], N at least 1."""
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
    """The rates over the sources of `shortest` to `longest` symbols, both included."""

    shortest: int
    longest: int
    rates: ErrorRates

    def to_json(self) -> dict[str, object]:
        """Plain values for json.dump."""
        return {"shortest": self.shortest, "longest": self.longest, **asdict(self.rates)}


@dataclass(frozen=True, kw_only=True)
class SymbolMetrics:
    """Error rates over a test set, and by the length of the source; how they were computed."""

    rates: ErrorRates
    by_length: tuple[LengthGroup, ...]
    signature: str

    def to_json(self) -> dict[str, object]:
        """Plain values for json.dump."""
        return {
            **asdict(self.rates),
            "by_length": [group.to_json() for group in self.by_length],
            "signatures": {"symbols": self.signature},
        }

    def rows(self) -> list[tuple[str, str, str]]:
        """Name, value, and how it was computed."""
        rates = self.rates
        return [
            ("symbol error rate", f"{_shown(rates.symbol_error_rate)} %", self.signature),
            ("sequence error rate", f"{_shown(rates.sequence_error_rate)} %", "outputs that equal no reference"),
            ("symbol accuracy", f"{_shown(rates.symbol_accuracy)} %", "position by position"),
            ("sequence accuracy", f"{_shown(rates.sequence_accuracy)} %", ""),
        ]

    def details(self) -> str:
        """A table in plain text, a row for each group of lengths."""
        header = ("source symbols", "sequences", "symbol errors", "symbol accuracy", "sequence accuracy")
        rows = [
            (
                f"{group.shortest:,} to {group.longest:,}",
                f"{group.rates.sequences:,}",
                f"{_shown(group.rates.symbol_error_rate)} %",
                f"{_shown(group.rates.symbol_accuracy)} %",
                f"{_shown(group.rates.sequence_accuracy)} %",
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
    """Score outputs[i], symbols separated by white space, against the nearest of references[i].

    `length_bounds` are the longest sources of the table's rows, in symbols; sources that are longer than all of them
    make a last row. Without any, each row ends at twice the length of the one before (see `doubling_bounds`).

    Raises CorpusError when the numbers of outputs and references differ or are zero, SettingsError when the bounds do
    not rise from 1.
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
                    rates=ErrorRates.of(counts[inside]),
                )
            )
    return SymbolMetrics(
        rates=ErrorRates.of(counts), by_length=tuple(groups), signature=_signature(number_of_references(references))
    )


def exact_match(outputs: Sequence[str], pairs: Sequence[tuple[str, str]]) -> float:
    """Per cent of outputs[i] that equal a reference of the source of pairs[i], apart from white space.

    Pairs of one source are its several references; the source counts as often as there are such pairs.
    """
    assert len(outputs) == len(pairs) > 0
    references = group_references(pairs)
    right = sum(
        any(output.split() == reference.split() for reference in references[source])
        for output, (source, _) in zip(outputs, pairs, strict=True)
    )
    return 100 * right / len(outputs)


def check_length_bounds(length_bounds: Sequence[int]) -> None:
    """Raise SettingsError unless the bounds rise from at least 1."""
    if any(bound < 1 for bound in length_bounds) or any(a >= b for a, b in pairwise(length_bounds)):
        raise SettingsError(f"length bounds must rise and be at least 1, got {' '.join(map(str, length_bounds))}")


def doubling_bounds(lengths: Sequence[int]) -> list[int]:
    """At most four bounds, each half of the next, whose last is a round number and not below the longest length.

    Round are 1, 2, 4 and 8 times a power of ten: for lengths up to 397 the bounds are 50, 100, 200 and 400.
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
    """Paired bootstrap of the error rates of systems, given as {name: outputs}, against the one named `baseline`.

    Raises CorpusError when numbers of outputs and references differ or are zero.
    """
    for name, outputs in systems.items():
        check_references(f"the outputs of {name}", outputs, references)
    counts = {name: _count(outputs, references) for name, outputs in systems.items()}
    columns = {
        "symbol error rate": ["edits", "symbols"],
        "sequence error rate": ["wrong", "sequences"],
        "symbol accuracy": ["matching", "positions"],
    }
    comparisons: list[BootstrapResult] = []
    for metric, names in columns.items():
        chosen = [Counts._fields.index(name) for name in names]
        statistics = {name: table[:, chosen] for name, table in counts.items()}
        comparisons += resample(metric, statistics, baseline, percentage, samples=samples, seed=seed)
    return Significance(
        comparisons=tuple(comparisons),
        signatures={"symbols": _signature(number_of_references(references))},
        sentences=len(references),
        samples=samples,
        seed=seed,
    )


def _count(outputs: Sequence[str], references: Sequence[References]) -> NDArray[np.int64]:
    """`Counts` of each output, [N, 6]."""
    return np.array([count_errors(output, each) for output, each in zip(outputs, references, strict=True)])


def _signature(references: str) -> str:
    return f"nrefs:{references}|case:mixed|tok:space|ref:nearest|lib:rapidfuzz|version:{version('rapidfuzz')}"


def _shown(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.2f}"
