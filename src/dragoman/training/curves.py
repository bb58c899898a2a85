"""What a run leaves for people to look at: the learning curves."""

import io
import math
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import EngFormatter, MaxNLocator

from dragoman.files import write_atomically
from dragoman.training.events import Event, number_of, read_events, step_of
from dragoman.training.metrics import METRICS, Line, Metric

# Told apart by the colour-blind too (Okabe and Ito 2008); metrics have their colours in their table.
_TRAINING, _VALIDATION = "#56B4E9", "#D55E00"


def draw_curves(log: Path, picture: Path) -> None:
    """Draw loss, quality and learning rate over the updates as a PNG, from the events of `log`.

    Raises StorageError when the log cannot be read.
    """
    events = read_events(log)
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    figure = Figure(figsize=(12, 3.6), dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06))
    loss, quality, rate = figure.subplots(1, 3, sharex=True)

    _draw(loss, steps, "loss", color=_TRAINING, label="training")
    found = _draw(loss, validations, "loss", color=_VALIDATION, label="validation", marker="o")
    _mark(loss, min(found, key=lambda point: point[1], default=None), "lowest", ".2f", _VALIDATION)
    loss.set(title="Loss", ylabel="loss (nats per token)")

    for metric in METRICS.values():
        if metric.line is not None:
            _draw_metric(quality, validations, metric, metric.line)
    quality.set(title="Translations of the validation set", ylabel="score (0 to 100)")
    quality.set_ylim(bottom=0)

    _draw(rate, steps, "learning_rate", color="#444444", label="learning rate")
    rate.set(title="Learning rate", ylabel="learning rate")
    rate.set_ylim(bottom=0)
    rate.ticklabel_format(axis="y", style="sci", scilimits=(-2, 2))

    for axes in (loss, quality, rate):
        axes.set_xlabel("updates")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(y=0.12)
        if not axes.lines:
            axes.set_yticks([])
            axes.text(0.5, 0.5, "nothing yet", transform=axes.transAxes, ha="center", color="#888888")
        elif len(axes.lines) > 1:
            axes.legend(frameon=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})  # the same log, the same bytes
    write_atomically(picture, png.getvalue())


def _draw_metric(axes: Axes, validations: Sequence[Event], metric: Metric, line: Line) -> None:
    found = _draw(
        axes,
        validations,
        metric.name,
        color=line.color,
        label=metric.label,
        marker=line.marker,
        linestyle=line.linestyle,
    )
    if line.best:
        choose = max if metric.higher_is_better else min
        best = choose(found, key=lambda point: point[1], default=None)
        _mark(axes, best, f"best {metric.label}", metric.format, line.color)


def _draw(
    axes: Axes, events: Sequence[Event], key: str, *, color: str, label: str, marker: str = "", linestyle: str = "-"
) -> list[tuple[float, float]]:
    """Draw one figure over the updates and return its points, if there are any."""
    points = [(step_of(event), number_of(event, key)) for event in events]
    finite = [point for point in points if math.isfinite(point[1])]
    if finite:
        x, y = zip(*points, strict=True)  # with what is not finite: a gap in the line
        axes.plot(x, y, color=color, label=label, marker=marker, linestyle=linestyle, linewidth=1.4, markersize=3.5)
    return finite


def _mark(axes: Axes, point: tuple[float, float] | None, what: str, number: str, color: str) -> None:
    """Mark the best point, and say in the legend what and where it is."""
    if point is not None:
        axes.plot(
            *point,
            color=color,
            label=f"{what}: {point[1]:{number}} at {point[0]:,.0f}",
            marker="*",
            markersize=13,
            markeredgecolor="white",
            linestyle="",
            zorder=5,
        )
