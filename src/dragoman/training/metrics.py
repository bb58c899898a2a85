"""The table of metrics: what validations measure, and how each metric is formatted, drawn and compared.

The log, metrics.json, the model card, the live display, TensorBoard, the learning curves, the selection of the best
model, early stopping and the summary at the end of `train` all use this table. To add a metric, add a line here, and
compute the metric where an objective validates (for translation: `run/validator.py`).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CurveStyle:
    """Style of a metric's learning curve.

    Attributes:
        color: from a palette that is also distinguishable with colour blindness (Okabe and Ito 2008).
        marker: marker of matplotlib.
        linestyle: line style of matplotlib.
        mark_best: mark the best value in the figure, and print a sparkline of the metric at the end of a run.
    """

    color: str
    marker: str = "o"
    linestyle: str = "-"
    mark_best: bool = False


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of validations.

    Attributes:
        name: key in log.jsonl, metrics.json and checkpoints, and value of the setting training.best_by.
        label: name in text.
        format: format specification of the value.
        higher_is_better: True if a higher value is better.
        width: width of the column in the live display, in characters.
        heading: heading of the column; None: the label.
        unit: text after the value.
        from_loss: computes the metric from the loss. Such a metric is not measured and cannot be used for
            training.best_by.
        curve: style of the learning curve; None: the metric is not drawn.
    """

    name: str
    label: str
    format: str
    higher_is_better: bool
    width: int
    heading: str | None = None
    unit: str = ""
    from_loss: Callable[[float], float] | None = None
    curve: CurveStyle | None = None

    def text(self, value: float) -> str:
        """Return label, value and unit, such as "BLEU 20.5"."""
        return f"{self.label} {value:{self.format}}{self.unit}"

    def column_heading(self) -> str:
        """Return the heading of the column, padded to its width."""
        return f"{self.heading or self.label:>{self.width}}"

    def column_value(self, value: float) -> str:
        """Return the value, padded to the width of the column."""
        return f"{value:>{self.width}{self.format}}"

    def is_better(self, value: float, other: float) -> bool:
        """Return whether `value` is better than `other`."""
        return value > other if self.higher_is_better else value < other


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, 700))


LOSS = Metric(name="loss", label="loss", format=".3f", higher_is_better=False, width=7)

# In the order of the keys of the log and of the columns of the display.
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
            name="bits_per_character",
            label="bits per character",
            format=".3f",
            higher_is_better=False,
            width=9,
            heading="bits/char",
            curve=CurveStyle(color="#D55E00", mark_best=True),
        ),
        Metric(
            name="bleu",
            label="BLEU",
            format=".1f",
            higher_is_better=True,
            width=6,
            curve=CurveStyle(color="#0072B2", mark_best=True),
        ),
        Metric(
            name="chrf",
            label="chrF",
            format=".1f",
            higher_is_better=True,
            width=6,
            curve=CurveStyle(color="#009E73", marker="s", linestyle="--"),
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
        Metric(
            name="accuracy",
            label="accuracy",
            format=".1f",
            higher_is_better=True,
            width=8,
            unit=" %",
            curve=CurveStyle(color="#0072B2", mark_best=True),
        ),
        Metric(
            name="macro_f1",
            label="macro F1",
            format=".1f",
            higher_is_better=True,
            width=8,
            curve=CurveStyle(color="#009E73", marker="s", linestyle="--"),
        ),
        Metric(
            name="span_f1",
            label="F1 of spans",
            format=".1f",
            higher_is_better=True,
            width=7,
            heading="span F1",
            curve=CurveStyle(color="#D55E00", marker="^", linestyle=":"),
        ),
        Metric(
            name="masked_accuracy",
            label="masked tokens correct",
            format=".1f",
            higher_is_better=True,
            width=9,
            heading="correct %",
            unit=" %",
            curve=CurveStyle(color="#0072B2", mark_best=True),
        ),
        Metric(
            name="next_sentence_accuracy",
            label="next sentences correct",
            format=".1f",
            higher_is_better=True,
            width=6,
            heading="next %",
            unit=" %",
        ),
        Metric(
            name="frechet_distance",
            label="Fréchet distance",
            format=".2f",
            higher_is_better=False,
            width=8,
            heading="Fréchet",
            curve=CurveStyle(color="#0072B2", mark_best=True),
        ),
        Metric(
            name="kernel_distance",
            label="kernel distance",
            format=".3f",
            higher_is_better=False,
            width=7,
            heading="kernel",
            curve=CurveStyle(color="#009E73", marker="s", linestyle="--"),
        ),
    )
}


def choices() -> tuple[str, ...]:
    """Return the names of the metrics that training.best_by accepts."""
    return tuple(name for name, metric in METRICS.items() if metric.from_loss is None)


def headline_metric(measured: Iterable[str]) -> Metric:
    """Return the metric whose sparkline is printed at the end of a run; the loss if no other metric qualifies.

    Args:
        measured: names of the measured metrics.
    """
    names = set(measured)
    marked = (metric for metric in METRICS.values() if metric.curve is not None and metric.curve.mark_best)
    return next((metric for metric in marked if metric.name in names), LOSS)
