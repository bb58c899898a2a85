"""The table of metrics: what validations measure, and how each is written, shown, drawn and compared.

The log, metrics.json, the model card, the live display, TensorBoard, the curves, the choice of the best model, early
stopping and what `train` prints at its end are made from this table. To add a metric, add a line here, and compute it
where an objective validates (for translation: `run/validator.py`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Line:
    """How a metric is drawn over the updates.

    color       tells it apart for the colour-blind too (Okabe and Ito 2008)
    best        mark its best value in the picture, and print its course at the end of a run
    """

    color: str
    marker: str = "o"
    linestyle: str = "-"
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One figure of a validation.

    name                its key in log.jsonl, metrics.json and checkpoints, its value of training.best_by
    label               its name for people
    format              of its value
    higher_is_better    otherwise, lower is
    heading, width      of its column in the live display; the heading is the label unless given
    unit                written after the value
    from_loss           computes it from the loss; such a metric is not measured, and decides nothing
    line                how it is drawn; None: it is not in the picture
    """

    name: str
    label: str
    format: str
    higher_is_better: bool
    width: int
    heading: str | None = None
    unit: str = ""
    from_loss: Callable[[float], float] | None = None
    line: Line | None = None

    def text(self, value: float) -> str:
        """Return label, value and unit, for a sentence."""
        return f"{self.label} {value:{self.format}}{self.unit}"

    def head(self) -> str:
        """Return the heading of its column."""
        return f"{self.heading or self.label:>{self.width}}"

    def cell(self, value: float) -> str:
        """Return the value in its column."""
        return f"{value:>{self.width}{self.format}}"

    def better(self, value: float, other: float) -> bool:
        """Return whether `value` is an improvement on `other`."""
        return value > other if self.higher_is_better else value < other


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700))


LOSS = Metric(name="loss", label="loss", format=".3f", higher_is_better=False, width=7)

# In the order of the log and of the columns.
METRICS = {
    metric.name: metric
    for metric in (
        LOSS,
        Metric(
            name="perplexity",
            label="perplexity",
            format=".2f",
            higher_is_better=False,
            width=10,
            from_loss=_perplexity,
        ),
        Metric(
            name="bleu",
            label="BLEU",
            format=".1f",
            higher_is_better=True,
            width=6,
            line=Line(color="#0072B2", best=True),
        ),
        Metric(
            name="chrf",
            label="chrF",
            format=".1f",
            higher_is_better=True,
            width=6,
            line=Line(color="#009E73", marker="s", linestyle="--"),
        ),
        Metric(
            name="exact_match",
            label="exact match",
            format=".1f",
            higher_is_better=True,
            width=7,
            heading="exact %",
            unit=" %",
        ),
    )
}


def choices() -> tuple[str, ...]:
    """Return the metrics that can decide which model is the best, by name."""
    return tuple(name for name, metric in METRICS.items() if metric.from_loss is None)


def headline(measured: Iterable[str]) -> Metric:
    """Return the metric whose course is printed at the end of a run: the loss when there is no other."""
    names = set(measured)
    return next((each for each in METRICS.values() if each.name in names and each.line and each.line.best), LOSS)
