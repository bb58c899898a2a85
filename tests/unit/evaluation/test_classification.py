"""Measures of classification and tagging."""

from pathlib import Path

import pytest

from dragoman.evaluation.classification import Classification, Span, draw_confusion, span_scores, spans

OUTPUTS = ["a", "a", "b", "b", "c", "a", "d"]
REFERENCES = ["a", "b", "b", "b", "c", "c", "a"]


def test_scores_of_a_small_table() -> None:
    """The values of scikit-learn's `classification_report` for the same lists."""
    result = Classification.of(OUTPUTS, REFERENCES)
    assert result.total == 7
    assert result.accuracy == pytest.approx(4 / 7)
    scores = result.by_label()
    assert {label: (score.precision, score.recall, score.support) for label, score in scores.items()} == {
        "a": (pytest.approx(1 / 3), 0.5, 2),
        "b": (1.0, pytest.approx(2 / 3), 3),
        "c": (1.0, 0.5, 2),
        "d": (0.0, 0.0, 0),
    }
    assert result.macro_f1 == pytest.approx((0.4 + 0.8 + 2 / 3 + 0) / 4)
    assert result.confusions(2) == [("a", "d", 1), ("b", "a", 1)]


@pytest.mark.parametrize(
    ("right", "wrong", "low", "high"),
    # Newcombe (1998), table I, method 3; the last is the mirror of the one before.
    [(81, 182, 0.2553, 0.3662), (15, 133, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (20, 0, 0.8389, 1.0)],
)
def test_the_interval_of_the_accuracy(right: int, wrong: int, low: float, high: float) -> None:
    result = Classification.of(["a"] * right + ["b"] * wrong, ["a"] * (right + wrong))
    assert result.accuracy_interval() == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("O O", []),
        ("B-X I-X O B-X", [Span(0, 2, "X"), Span(3, 4, "X")]),
        ("B-X B-X", [Span(0, 1, "X"), Span(1, 2, "X")]),
        ("I-X I-Y", [Span(0, 1, "X"), Span(1, 2, "Y")]),
        ("B-X I-Y I-Y", [Span(0, 1, "X"), Span(1, 3, "Y")]),
        ("NOUN B- I", []),
        ("B-part-of I-part-of", [Span(0, 2, "part-of")]),
    ],
)
def test_spans(tags: str, expected: list[Span]) -> None:
    assert spans(tags.split()) == expected


def test_scores_of_spans() -> None:
    references = ["B-X I-X O B-Y".split(), "B-X".split(), "O O".split()]
    outputs = ["B-X I-X O O".split(), "B-Y".split(), "O B-X".split()]
    scores = span_scores(outputs, references)
    assert [scores.precision, scores.recall, scores.f1] == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert (scores.references, scores.outputs) == (3, 3)
    assert span_scores([["O"]], [["O"]]).f1 == 0


def test_the_confusion_is_drawn(tmp_path: Path) -> None:
    draw_confusion(Classification.of([*OUTPUTS, "$x$"], [*REFERENCES, "a"]), tmp_path / "confusion.png")
    assert (tmp_path / "confusion.png").read_bytes().startswith(b"\x89PNG")
