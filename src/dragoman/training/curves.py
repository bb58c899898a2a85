"""Learning curves of a run, drawn from its log."""

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
from dragoman.training.metrics import METRICS, CurveStyle, Metric

# A palette that is also distinguishable with colour blindness (Okabe and Ito 2008). The colours of metrics are in
# their table.
_TRAINING, _VALIDATION = "#56B4E9", "#D55E00"


def draw_curves(log: Path, picture: Path) -> None:
    """Draw loss, metrics and learning rate over the updates as a PNG.

    Args:
        log: log.jsonl of a run.
        picture: path of the PNG to write.

    Raises:
        StorageError: if the log cannot be read.
    """
    events = read_events(log)
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    figure = Figure(figsize=(12, 3.6), dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06))
    loss, quality, rate = figure.subplots(1, 3, sharex=True)

    _draw(loss, steps, "loss", color=_TRAINING, label="training")
    points = _draw(loss, validations, "loss", color=_VALIDATION, label="validation", marker="o")
    _mark(loss, min(points, key=lambda point: point[1], default=None), "lowest", ".2f", _VALIDATION)
    loss.set(title="Loss", ylabel="loss (nats per token)")

    for metric in METRICS.values():
        if metric.curve is not None:
            _draw_metric(quality, validations, metric, metric.curve)
    quality.set(title="Translations of the validation set", ylabel="metric (0 to 100)")
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
            axes.text(0.5, 0.5, "no data yet", transform=axes.transAxes, ha="center", color="#888888")
        elif len(axes.lines) > 1:
            axes.legend(frameon=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})  # the same log gives the same bytes
    write_atomically(picture, png.getvalue())


def _draw_metric(axes: Axes, validations: Sequence[Event], metric: Metric, style: CurveStyle) -> None:
    points = _draw(
        axes,
        validations,
        metric.name,
        color=style.color,
        label=metric.label,
        marker=style.marker,
        linestyle=style.linestyle,
    )
    if style.mark_best:
        best_of = max if metric.higher_is_better else min
        best = best_of(points, key=lambda point: point[1], default=None)
        _mark(axes, best, f"best {metric.label}", metric.format, style.color)


def _draw(
    axes: Axes, events: Sequence[Event], key: str, *, color: str, label: str, marker: str = "", linestyle: str = "-"
) -> list[tuple[float, float]]:
    """Draw one value over the updates and return its finite points (update, value)."""
    points = [(step_of(event), number_of(event, key)) for event in events]
    finite = [point for point in points if math.isfinite(point[1])]
    if finite:
        x, y = zip(*points, strict=True)  # points that are not finite are gaps in the line
        axes.plot(x, y, color=color, label=label, marker=marker, linestyle=linestyle, linewidth=1.4, markersize=3.5)
    return finite


def _mark(axes: Axes, point: tuple[float, float] | None, label: str, number_format: str, color: str) -> None:
    """Mark the best point with a star, and add its value and update to the legend."""
    if point is not None:
        axes.plot(
            *point,
            color=color,
            label=f"{label}: {point[1]:{number_format}} at {point[0]:,.0f}",
            marker="*",
            markersize=13,
            markeredgecolor="white",
            linestyle="",
            zorder=5,
        )
