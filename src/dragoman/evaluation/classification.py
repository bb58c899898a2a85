"""Measures of classification and of tagging: accuracy, F1, confusion, and F1 of spans. Strings and numbers only."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# 95 % of a normal distribution are within this number of standard deviations of its mean.
NORMAL_95 = 1.959964
# Largest number of labels of which the confusion is drawn with their names.
MOST_NAMES = 60


@dataclass(frozen=True)
class LabelScores:
    """Scores of one label.

    Attributes:
        precision: share of the outputs with this label that are right; 0 if there are none.
        recall: share of the references with this label that were found; 0 if there are none.
        support: number of references with this label.
    """

    precision: float
    recall: float
    support: int

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if both are 0."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


@dataclass(frozen=True)
class Classification:
    """Outputs of a classifier beside the references.

    Attributes:
        labels: all labels of outputs and references, sorted.
        counts: number of pairs by reference and output, as indices of `labels`.
    """

    labels: tuple[str, ...]
    counts: Counter[tuple[int, int]]

    @classmethod
    def of(cls, outputs: Sequence[str], references: Sequence[str]) -> "Classification":
        """Compare outputs with references.

        Example:
            >>> result = Classification.of(["web", "web", "admin"], ["web", "admin", "admin"])
            >>> round(100 * result.accuracy), round(100 * result.macro_f1)
            (67, 67)
        """
        assert len(outputs) == len(references) > 0
        labels = tuple(sorted({*outputs, *references}))
        index = {label: i for i, label in enumerate(labels)}
        return cls(
            labels,
            Counter((index[reference], index[output]) for output, reference in zip(outputs, references, strict=True)),
        )

    @property
    def total(self) -> int:
        """Number of outputs."""
        return self.counts.total()

    @property
    def accuracy(self) -> float:
        """Share of the outputs that equal their references."""
        return sum(count for (reference, output), count in self.counts.items() if reference == output) / self.total

    def accuracy_interval(self) -> tuple[float, float]:
        """Return the ends of the 95 % interval of the accuracy (Wilson, 1927), for outputs that are independent.

        Example:
            >>> low, high = Classification.of(["a"] * 10, ["a"] * 10).accuracy_interval()
            >>> round(low, 3), round(high, 3)
            (0.722, 1.0)
        """
        n, accuracy, z2 = self.total, self.accuracy, NORMAL_95**2
        centre = (accuracy + z2 / (2 * n)) / (1 + z2 / n)
        half = NORMAL_95 / (1 + z2 / n) * math.sqrt(accuracy * (1 - accuracy) / n + z2 / (4 * n * n))
        return max(0.0, centre - half), min(1.0, centre + half)

    @property
    def macro_f1(self) -> float:
        """Mean of the F1 of all labels of outputs and references, each with the same weight."""
        return sum(scores.f1 for scores in self.by_label().values()) / len(self.labels)

    def by_label(self) -> dict[str, LabelScores]:
        """Return the scores of each label."""
        references, outputs = Counter[int](), Counter[int]()
        for (reference, output), count in self.counts.items():
            references[reference] += count
            outputs[output] += count
        return {
            label: LabelScores(
                self.counts[i, i] / outputs[i] if outputs[i] else 0.0,
                self.counts[i, i] / references[i] if references[i] else 0.0,
                references[i],
            )
            for i, label in enumerate(self.labels)
        }

    def confusions(self, number: int) -> list[tuple[str, str, int]]:
        """Return the most frequent confusions as reference, output and count, most frequent first."""
        wrong = [(count, *pair) for pair, count in self.counts.items() if pair[0] != pair[1]]
        ordered = sorted(wrong, key=lambda item: (-item[0], item[1:]))
        return [(self.labels[reference], self.labels[output], count) for count, reference, output in ordered[:number]]


class Span(NamedTuple):
    """A span of tokens.

    Attributes:
        start: index of its first token.
        end: index after its last token.
        label: its label.
    """

    start: int
    end: int
    label: str


def spans(tags: Sequence[str]) -> list[Span]:
    """Return the spans of a sentence that is tagged with B-label, I-label and O.

    An I that does not continue a span of its label begins one, as in the evaluation of CoNLL-2000. A tag without
    prefix belongs to no span.

    Example:
        >>> spans(["B-PER", "I-PER", "O", "I-LOC"])
        [Span(start=0, end=2, label='PER'), Span(start=3, end=4, label='LOC')]
    """
    return list(_spans(tags))


def _spans(tags: Sequence[str]) -> Iterator[Span]:
    start, current = 0, None
    for i, tag in enumerate([*tags, "O"]):
        prefix, _, label = tag.partition("-")
        inside = label if prefix in ("B", "I") and label else None
        if current is not None and (inside != current or prefix == "B"):
            yield Span(start, i, current)
            current = None
        if inside is not None and current is None:
            start, current = i, inside


@dataclass(frozen=True)
class SpanScores:
    """Scores of the spans of all sentences.

    Attributes:
        precision: share of the spans of the outputs that are right in boundaries and label; 0 if there are none.
        recall: share of the spans of the references that were found; 0 if there are none.
        f1: harmonic mean of both; 0 if both are 0.
        references: number of spans in the references.
        outputs: number of spans in the outputs.
    """

    precision: float
    recall: float
    f1: float
    references: int
    outputs: int


def span_scores(outputs: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> SpanScores:
    """Return the scores of the spans in the tags of sentences; see `spans`.

    Example:
        >>> span_scores([["B-PER", "O"]], [["B-PER", "I-PER"]]).f1
        0.0
    """
    assert len(outputs) == len(references)
    right = found = expected = 0
    for output, reference in zip(outputs, references, strict=True):
        ours, theirs = set(spans(output)), set(spans(reference))
        right, found, expected = right + len(ours & theirs), found + len(ours), expected + len(theirs)
    return SpanScores(
        right / found if found else 0.0,
        right / expected if expected else 0.0,
        2 * right / (found + expected) if found + expected else 0.0,
        expected,
        found,
    )


def draw_confusion(result: Classification, path: Path) -> None:
    """Draw the confusion as a picture: references in rows, outputs in columns, shares of the references as shades.

    Args:
        result: the outputs and the references.
        path: the picture, whose format follows from its suffix.
    """
    import numpy as np
    from matplotlib.figure import Figure

    size = len(result.labels)
    shares = np.zeros((size, size))
    for (reference, output), count in result.counts.items():
        shares[reference, output] = count
    shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1)
    side = min(14.0, 2.5 + 0.28 * size)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares, vmin=0, vmax=1, cmap="Blues")
    if size <= MOST_NAMES:
        # A dollar sign would begin a formula.
        names = [label.replace("$", r"\$") for label in result.labels]
        axes.set_xticks(range(size), names, rotation=90)
        axes.set_yticks(range(size), names)
    axes.set_xlabel("output")
    axes.set_ylabel("reference")
    axes.set_title(f"accuracy {100 * result.accuracy:.1f} %, macro F1 {100 * result.macro_f1:.1f}")
    figure.colorbar(image, ax=axes, label="share of the references", shrink=0.8)
    figure.savefig(path, dpi=150)
