"""Word alignments: Pharaoh format, and alignment error rates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.evaluation.alignment import (
    Reference,
    alignment_metrics,
    diagonal,
    links_of_words_in,
    partial_alignment_metrics,
    pharaoh,
    read_references,
)


def test_metrics_equal_those_of_och_and_ney() -> None:
    """Computed by hand for A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S + {1-1}."""
    [reference] = read_references(["0-0 1-2 1?1"], "gold")
    metrics = alignment_metrics([[(0, 0), (1, 1), (2, 2)]], [reference])
    assert metrics.precision == pytest.approx(2 / 3)
    assert metrics.recall == pytest.approx(1 / 2)
    assert metrics.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


@given(st.lists(st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5))), min_size=1, max_size=5))
def test_an_alignment_equal_to_its_reference_has_no_errors(gold: list[frozenset[tuple[int, int]]]) -> None:
    metrics = alignment_metrics(gold, [Reference(links, links) for links in gold])
    assert (metrics.error_rate, metrics.precision, metrics.recall) == (0, 1, 1)
    parsed = read_references([pharaoh(links) for links in gold], "gold")
    assert [reference.sure for reference in parsed] == gold


@pytest.mark.parametrize("text", ["0-", "a-b", "0-0,1-1", "-1-0", "0-0-0", "1234567890-0"])
def test_text_that_is_not_a_link_is_named_with_its_line(text: str) -> None:
    with pytest.raises(UserError, match=r"gold\.txt:2: .* is not a link"):
        read_references(["0-0", text], "gold.txt")


def test_the_diagonal_connects_both_ends() -> None:
    assert diagonal(5, 3) == [(0, 0), (2, 1), (4, 2)]
    assert diagonal(1, 2) == [(0, 0), (0, 1)]
    assert diagonal(0, 2) == []
    assert diagonal(3, 0) == []


def test_a_partial_reference_ignores_links_of_other_words() -> None:
    alignment, reference = [(0, 0), (1, 2), (3, 3), (4, 1)], frozenset({(1, 2), (3, 1)})
    assert links_of_words_in(reference, alignment) == [(1, 2), (3, 3), (4, 1)]
    metrics = partial_alignment_metrics([alignment], [reference])
    assert metrics.links == 3
    assert metrics.recall == 1 / 2
    assert metrics.precision == 1 / 3
