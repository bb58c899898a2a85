"""What a run leaves for people to look at: the learning curves, a sparkline."""

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

_BLOCKS = "▁▂▃▄▅▆▇█"
# Told apart by the colour-blind too (Okabe and Ito 2008), and in grey by marker and dash.
_TRAINING, _VALIDATION, _BLEU, _CHRF = "#56B4E9", "#D55E00", "#0072B2", "#009E73"


def draw_curves(log: Path, picture: Path) -> None:
    """Draw loss, quality and learning rate over the updates as a PNG, from the events of `log`.

    Raises UserError when the log cannot be read.
    """
    events = read_events(log)
    steps = [event for event in events if event["event"] == "step"]
    validations = [event for event in events if event["event"] == "validation"]
    figure = Figure(figsize=(12, 3.6), dpi=150, layout=ConstrainedLayoutEngine(wspace=0.06))
    loss, quality, rate = figure.subplots(1, 3, sharex=True)

    _draw(loss, steps, "loss", color=_TRAINING, label="training")
    found = _draw(loss, validations, "loss", color=_VALIDATION, label="validation", marker="o")
    _mark(loss, min(found, key=lambda point: point[1], default=None), "lowest", "{:.2f}", _VALIDATION)
    loss.set(title="Loss", ylabel="loss (nats per token)")

    found = _draw(quality, validations, "bleu", color=_BLEU, label="BLEU", marker="o")
    _mark(quality, max(found, key=lambda point: point[1], default=None), "best BLEU", "{:.1f}", _BLEU)
    _draw(quality, validations, "chrf", color=_CHRF, label="chrF", marker="s", linestyle="--")
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


def sparkline(values: Sequence[float]) -> str:
    """The values as a line of blocks, lowest to highest; a blank where a value is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top = len(_BLOCKS) - 1
    # Halved, so that the distance between the largest floats of both signs is still one.
    spread = (high / 2 - low / 2) or 1.0
    return "".join(
        _BLOCKS[round((value / 2 - low / 2) / spread * top)] if math.isfinite(value) else " " for value in values
    )


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
    if point is not None:
        axes.plot(
            *point,
            color=color,
            label=f"{what}: {number.format(point[1])} at {point[0]:,.0f}",
            marker="*",
            markersize=13,
            markeredgecolor="white",
            linestyle="",
            zorder=5,
        )
