"""Error rates of symbols: agreement with another edit distance, properties, errors."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.evaluation.error_rates import (
    ROWS,
    ErrorRates,
    compare_symbols,
    count_errors,
    doubling_bounds,
    exact_match,
    symbol_metrics,
)
from dragoman.evaluation.references import group_references
from dragoman.evaluation.significance import Significance, resample

# Few different symbols, so that they often match; separated by any white space.
SYMBOLS = st.lists(st.sampled_from(["a", "b", "AH0", "é", "\0"]), max_size=8)
SPACES = st.sampled_from([" ", "  ", "\t", "\u2028", "\u00a0", "\n"])
LINES = st.tuples(SYMBOLS, SPACES).map(lambda line: line[1].join(line[0]))
ANY_TEXT = st.text(max_size=20)
REFERENCES = st.lists(LINES | ANY_TEXT, min_size=1, max_size=3)


def edit_distance(a: list[str], b: list[str]) -> int:
    """Return the edit distance, computed with the full table (Wagner and Fischer, 1974)."""
    table = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    table[:, 0], table[0, :] = np.arange(len(a) + 1), np.arange(len(b) + 1)
    for i, x in enumerate(a, start=1):
        for j, y in enumerate(b, start=1):
            table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (x != y))
    return int(table[-1, -1])


@given(LINES, st.lists(LINES, min_size=1, max_size=3))
def test_edits_are_those_of_another_implementation(output: str, references: list[str]) -> None:
    counts = count_errors(output, references)
    distances = [edit_distance(output.split(), reference.split()) for reference in references]
    assert counts.edits == min(distances)
    nearest = [
        reference.split()
        for reference, distance in zip(references, distances, strict=True)
        if distance == counts.edits and len(reference.split()) == counts.symbols
    ]
    assert nearest
    # The selected reference is the longest of the nearest ones.
    assert counts.symbols == max(
        len(reference.split())
        for reference, distance in zip(references, distances, strict=True)
        if distance == counts.edits
    )
    padded = [*output.split(), *[""] * counts.symbols]
    assert counts.matching == sum(x == y for x, y in zip(padded, nearest[0], strict=False))
    assert counts.wrong == all(output.split() != reference.split() for reference in references)


@given(ANY_TEXT | LINES, REFERENCES)
def test_the_nearest_reference_is_never_worse_than_the_first(output: str, references: list[str]) -> None:
    several, first = count_errors(output, references), count_errors(output, references[:1])
    assert several.edits <= first.edits
    assert several.wrong <= first.wrong
    assert count_errors(output, [*references, output]).edits == 0


@given(st.lists(st.tuples(ANY_TEXT | LINES, REFERENCES, LINES), min_size=1, max_size=6))
def test_rates_are_within_their_ranges_and_groups_add_up_to_the_total(cases: list[tuple[str, list[str], str]]) -> None:
    outputs, references, sources = [list(column) for column in zip(*cases, strict=True)]
    metrics = symbol_metrics(outputs, references, sources)
    rates = metrics.rates
    assert rates.symbol_error_rate is None or rates.symbol_error_rate >= 0
    assert 0 <= rates.sequence_error_rate <= 100
    assert rates.sequence_accuracy == 100 - rates.sequence_error_rate
    assert rates.symbol_accuracy is None or 0 <= rates.symbol_accuracy <= 100
    assert sum(group.rates.sequences for group in metrics.by_length) == rates.sequences == len(cases)
    assert sum(group.rates.symbols for group in metrics.by_length) == rates.symbols
    lengths = [len(source.split()) for source in sources]
    for group in metrics.by_length:
        inside = sum(group.shortest <= length <= group.longest for length in lengths)
        assert group.rates.sequences == inside
    # All sequences are correct if and only if there is no wrong symbol.
    assert (rates.sequence_error_rate == 0) == (not rates.symbol_error_rate and rates.symbol_accuracy in (100, None))
    json.dumps(metrics.to_json(), allow_nan=False)
    assert metrics.details()


@given(st.lists(st.integers(0, 100_000), min_size=1))
def test_bounds_double_up_to_a_number_with_one_leading_digit(lengths: list[int]) -> None:
    bounds = doubling_bounds(lengths)
    assert 1 <= len(bounds) <= ROWS
    assert max(lengths) <= bounds[-1] <= max(2.5 * max(lengths), 1)
    assert str(bounds[-1]).rstrip("0") in ("1", "2", "4", "8")
    assert all(1 <= a <= b / 2 for a, b in pairwise(bounds))


@pytest.mark.parametrize(
    ("longest", "bounds"),
    [
        (0, [1]),
        (1, [1]),
        (2, [1, 2]),
        (10, [1, 2, 5, 10]),
        (20, [2, 5, 10, 20]),
        (34, [5, 10, 20, 40]),
        (81, [12, 25, 50, 100]),
        (397, [50, 100, 200, 400]),
        (400, [50, 100, 200, 400]),
        (401, [100, 200, 400, 800]),
    ],
)
def test_bounds_of_example_lengths(longest: int, bounds: list[int]) -> None:
    assert doubling_bounds([longest]) == bounds


def test_lines_with_equal_sources_give_the_references_of_one_source() -> None:
    pairs = [("r e a d", "R IY D"), ("c a t", "K AE T"), ("r e a d", "R EH D"), ("r e a d", "R IY D"), ("", "x")]
    assert group_references(pairs) == {"r e a d": ["R IY D", "R EH D"], "c a t": ["K AE T"], "": ["x"]}


def test_an_exact_match_equals_any_reference_except_for_white_space() -> None:
    pairs = [("r e a d", "R IY D"), ("r e a d", "R EH D"), ("c a t", "K AE T"), ("", "")]
    assert exact_match(["R EH D", "R EH D", " K  AE T", ""], pairs) == 100
    assert exact_match(["R AH D", "R IY D", "K AE", "x"], pairs) == 25


@given(st.lists(st.tuples(LINES, LINES), min_size=1, max_size=6), st.data())
def test_exact_match_equals_sequence_accuracy_if_all_sources_differ(
    pairs: list[tuple[str, str]], data: st.DataObject
) -> None:
    pairs = [(f"{number} {source}", reference) for number, (source, reference) in enumerate(pairs)]
    outputs = [data.draw(LINES | st.just(reference)) for _, reference in pairs]
    metrics = symbol_metrics(outputs, [[reference] for _, reference in pairs], [source for source, _ in pairs])
    assert exact_match(outputs, pairs) == pytest.approx(metrics.rates.sequence_accuracy)


def test_metrics_are_written_as_plain_json() -> None:
    metrics = symbol_metrics(["a b", "c"], [["a b"], ["d"]], ["1 2", "3"])
    read_back = json.loads(json.dumps(metrics.to_json()))
    assert read_back == metrics.to_json()
    rates = {"symbol_error_rate", "sequence_error_rate", "symbol_accuracy", "sequence_accuracy", "sequences", "symbols"}
    assert set(read_back) == {*rates, "by_length", "signatures"}
    assert [set(group) for group in read_back["by_length"]] == [{*rates, "shortest", "longest"}] * 2


def value_of(significance: Significance, system: str, metric: str) -> float:
    (value,) = (r.value for r in significance.results if (r.system, r.metric) == (system, metric))
    return value


def test_tested_rates_equal_the_metrics() -> None:
    references = [["a b c"], ["a", "b c"], ["d e"]]
    systems = {"one": ["a b", "b", "d e"], "two": ["a b c", "b c d", ""]}
    result = compare_symbols(references, "one", systems, samples=20)
    for name, outputs in systems.items():
        rates = symbol_metrics(outputs, references, ["s"] * 3).rates
        assert value_of(result, name, "symbol error rate") == rates.symbol_error_rate
        assert value_of(result, name, "sequence error rate") == rates.sequence_error_rate
        assert value_of(result, name, "symbol accuracy") == rates.symbol_accuracy
    # Samples without any symbols are no error.
    compare_symbols([[""], ["a"]], "one", {"one": ["", "a"], "two": ["", "b"]}, samples=20)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UserError, match=r"expected 2 lines in the outputs, .* found 1"):
        symbol_metrics(["a"], [["a"], ["b"]], ["a"])
    with pytest.raises(UserError, match="no lines"):
        symbol_metrics([], [], [])
    for bounds in ((0, 5), (5, 5), (10, 5)):
        with pytest.raises(UserError, match="must be increasing"):
            symbol_metrics(["a"], [["a"]], ["a"], length_bounds=bounds)
    with pytest.raises(UserError, match=r"expected 1 lines in the outputs of b, .* found 0"):
        compare_symbols([["a"]], "a", {"a": ["a"], "b": []})
    with pytest.raises(UserError, match="samples >= 1"):
        resample("any", {"a": np.ones((3, 2))}, "a", lambda sums: float(sums[0]), samples=0)


def test_a_very_long_output_is_counted() -> None:
    rates = symbol_metrics(["a " * 100_000], [["b"]], ["x"]).rates
    assert rates == ErrorRates(
        symbol_error_rate=10_000_000,
        sequence_error_rate=100,
        symbol_accuracy=0,
        sequence_accuracy=0,
        sequences=1,
        symbols=1,
    )
