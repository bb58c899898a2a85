"""Word alignments: Pharaoh pairs, and error rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.evaluation.alignment import (
    Reference,
    alignment_metrics,
    diagonal,
    partial_alignment_metrics,
    pharaoh,
    read_references,
    touching,
)


def test_error_rate_is_that_of_och_and_ney() -> None:
    """By hand: A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S + {1-1}."""
    [reference] = read_references(["0-0 1-2 1?1"], "gold")
    scores = alignment_metrics([[(0, 0), (1, 1), (2, 2)]], [reference])
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(1 / 2)
    assert scores.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


@given(st.lists(st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5))), min_size=1, max_size=5))
def test_the_reference_itself_is_without_error(gold: list[frozenset[tuple[int, int]]]) -> None:
    scores = alignment_metrics(gold, [Reference(each, each) for each in gold])
    assert (scores.error_rate, scores.precision, scores.recall) == (0, 1, 1)
    written = read_references([pharaoh(each) for each in gold], "gold")
    assert [reference.sure for reference in written] == gold


@pytest.mark.parametrize("text", ["0-", "a-b", "0-0,1-1", "-1-0", "0-0-0", "1234567890-0"])
def test_what_is_no_link_is_named_with_its_line(text: str) -> None:
    with pytest.raises(UserError, match=r"gold\.txt:2: .* is no link"):
        read_references(["0-0", text], "gold.txt")


def test_the_diagonal_joins_both_ends() -> None:
    assert diagonal(5, 3) == [(0, 0), (2, 1), (4, 2)]
    assert diagonal(1, 2) == [(0, 0), (0, 1)]
    assert diagonal(0, 2) == []
    assert diagonal(3, 0) == []


def test_only_words_that_something_is_known_of_count() -> None:
    found, known = [(0, 0), (1, 2), (3, 3), (4, 1)], frozenset({(1, 2), (3, 1)})
    assert touching(found, known) == [(1, 2), (3, 3), (4, 1)]
    scores = partial_alignment_metrics([found], [known])
    assert scores.links == 3
    assert scores.recall == 1 / 2
    assert scores.precision == 1 / 3
