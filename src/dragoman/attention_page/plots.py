"""Pictures for print: heat maps of heads, position encodings, learning-rate schedules."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from dragoman.attention_page.data import AttentionData
from dragoman.attention_page.kinds import NAMES, Head, Kind
from dragoman.attention_page.statistics import HeadMeasurement, HeadMeasurements
from dragoman.errors import CorpusError, ModelError, SettingsError
from dragoman.rendering import Format, render
from dragoman.text.characters import SPACE_MARK

# A colour map with uniform steps in lightness, which remains readable in black and white.
_COLOURS = "Blues"
# Largest number of tokens on a side for which the weights are written into the cells of one head's map.
_NUMBERS = 16
# Largest number of tokens on a side for which the maps of a grid have tokens as labels.
_LABELS = 24
# Width in inches of the longest title of a grid, on one line and on two.
_TITLE_WIDTH, _KIND_WIDTH = 3.6, 2.2
# Largest number of tokens on a side.
LONGEST = 256


def draw_head(attention: AttentionData, head: Head, form: Format) -> bytes:
    """Return a picture of the weights of one head: one row for each query, one column for each key.

    Args:
        attention: the data to draw.
        head: the head.
        form: "png" or "svg".

    Raises:
        SettingsError: the model does not have this head.
        ModelError: the model does not have this kind of attention.
        CorpusError: the sentence is too long to draw.
    """
    weights = _weights(attention, head.kind)
    N, H, T, S = weights.shape
    if not (0 <= head.layer < N and 0 <= head.head < H):
        raise SettingsError(
            f"there is no layer {head.layer + 1}, head {head.head + 1} of {attention.names[head.kind]}: the model has "
            f"{N} layers of {H} heads (both count from 1)"
        )
    figure = Figure(figsize=(1.6 + 0.32 * max(S, 6), 1.4 + 0.32 * max(T, 4)), dpi=200, layout="constrained")
    axes = figure.subplots()
    _draw_map(axes, weights[head.layer, head.head])
    _label_axes(axes, attention.keys(head.kind), attention.queries(head.kind))
    if max(T, S) <= _NUMBERS:
        for t, s in np.ndindex(T, S):
            weight = weights[head.layer, head.head, t, s]
            if weight >= 0.005:
                shade = "white" if weight > 0.6 else "#333333"
                axes.text(s, t, f"{weight:.2f}".removeprefix("0"), ha="center", va="center", fontsize=6, color=shade)
    axes.set_title(f"{attention.names[head.kind]}, layer {head.layer + 1}, head {head.head + 1}", fontsize=10)
    return render(figure, form)


def draw_heads(attention: AttentionData, form: Format, kind: Kind | None = None) -> bytes:
    """Return a picture of all heads of one kind: one row of maps for each layer.

    Args:
        attention: the data to draw.
        form: "png" or "svg".
        kind: the kind of attention; None for `AttentionData.main_kind`.

    Raises:
        ModelError: the model does not have this kind of attention.
        CorpusError: the sentence is too long to draw.
    """
    kind = kind or attention.main_kind
    weights = _weights(attention, kind)
    N, H, T, S = weights.shape
    labelled = max(T, S) <= _LABELS
    cell = 0.16 if labelled else 2.2 / max(T, S)
    wide, high = max(1.3, cell * S), max(1.3, cell * T)
    margin = 1.2 if labelled else 0.5
    width = max(_KIND_WIDTH, margin + H * wide)
    figure = Figure(figsize=(width, margin + N * high), dpi=200, layout="constrained")
    grid = figure.subplots(N, H, squeeze=False, sharex=True, sharey=True)
    for layer, head in np.ndindex(N, H):
        axes = grid[layer, head]
        assert isinstance(axes, Axes)
        _draw_map(axes, weights[layer, head])
        axes.set_xticks([])
        axes.set_yticks([])
        if layer == 0:
            axes.set_title(f"head {head + 1}", fontsize=8)
        if head == H - 1:
            axes.yaxis.set_label_position("right")
            axes.set_ylabel(f"layer {layer + 1}", fontsize=8)
    if labelled:
        for axes in grid[:, 0]:
            axes.set_yticks(range(T), _labels(attention.queries(kind)), fontsize=5)
        for axes in grid[-1]:
            axes.set_xticks(range(S), _labels(attention.keys(kind)), fontsize=5, rotation=90)
    separator = " " if width >= _TITLE_WIDTH else "\n"
    figure.suptitle(f"{attention.names[kind]}:{separator}rows attend to columns", fontsize=10)
    return render(figure, form)


def draw_measurements(measurements: HeadMeasurements, form: Format) -> bytes:
    """Return a picture of measurements over a corpus: for each kind of attention, maps of layers by heads."""
    by_kind: dict[Kind, list[HeadMeasurement]] = {}
    for measurement in measurements.heads:
        by_kind.setdefault(measurement.statistics.head.kind, []).append(measurement)
    importances = [abs(head.importance) for head in measurements.heads if head.importance is not None]
    largest = max(importances, default=0.0) or 1.0
    columns: list[tuple[str, str, float, float, Callable[[HeadMeasurement], float]]] = [
        ("increase of loss without it", "RdBu_r", -largest, largest, _importance),
        ("entropy, bits", "Blues", 0.0, max(head.statistics.entropy for head in measurements.heads), _entropy),
        ("confidence", "Blues", 0.0, 1.0, _confidence),
    ]
    figure = Figure(figsize=(10.5, 0.6 + 2.1 * len(by_kind)), dpi=130, layout="constrained")
    grid = figure.subplots(len(by_kind), len(columns), squeeze=False)
    for row, (kind, heads) in zip(grid, by_kind.items(), strict=True):
        # Numbers of layers and heads, from the largest (layer, head).
        shape = tuple(1 + max(indices) for indices in zip(*(head.statistics.head[1:] for head in heads), strict=True))
        for axes, (name, colours, low, high, value_of) in zip(row, columns, strict=True):
            values = np.full(shape, np.nan)
            for head in heads:
                values[head.statistics.head[1:]] = value_of(head)
            image = axes.imshow(values, cmap=colours, vmin=low, vmax=high, aspect="auto")
            axes.set_title(f"{measurements.names[kind]}: {name}", fontsize=8)
            axes.set_xticks(range(shape[1]), [str(number + 1) for number in range(shape[1])], fontsize=7)
            axes.set_yticks(range(shape[0]), [str(number + 1) for number in range(shape[0])], fontsize=7)
            axes.set_xlabel("head", fontsize=7)
            axes.set_ylabel("layer", fontsize=7)
            figure.colorbar(image, ax=axes).ax.tick_params(labelsize=6)
    return render(figure, form)


def _importance(measurement: HeadMeasurement) -> float:
    return np.nan if measurement.importance is None else measurement.importance


def _entropy(measurement: HeadMeasurement) -> float:
    return measurement.statistics.entropy


def _confidence(measurement: HeadMeasurement) -> float:
    return measurement.statistics.confidence


def draw_positions(table: Float[np.ndarray, "P D"], form: Format, *, title: str = "sinusoidal positions") -> bytes:
    """Return a picture of a table of sinusoidal positions (Vaswani et al. 2017, section 3.5), one row per position."""
    figure = Figure(figsize=(6.4, 4), dpi=200, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set(xlabel="dimension", ylabel="position", title=title)
    figure.colorbar(image, ax=axes, label="value")
    return render(figure, form)


def draw_schedules(rates: dict[str, Sequence[float]], form: Format) -> bytes:
    """Return a picture of learning rates over the updates, with one line for each name."""
    figure = Figure(figsize=(6.4, 3.2), dpi=200, layout="constrained")
    axes = figure.subplots()
    for colour, dash, (name, values) in zip(
        ("#0072B2", "#D55E00", "#009E73"), ("-", "--", ":"), rates.items(), strict=False
    ):
        axes.plot(range(1, len(values) + 1), values, dash, color=colour, label=name)
    axes.set(xlabel="update", ylabel="learning rate", title="learning-rate schedule")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return render(figure, form)


def _weights(attention: AttentionData, kind: Kind) -> Float[np.ndarray, "N H T S"]:
    arrays = dict(attention.kinds()).get(kind)
    if arrays is None:
        available = ", ".join(attention.names[kind] for kind, _ in attention.kinds())
        raise ModelError(f"this model has no {NAMES[kind]}; it has {available or 'no attention'}")
    if max(arrays.weights.shape[2:]) > LONGEST:
        raise CorpusError(
            f"a picture shows at most {LONGEST} tokens on a side, and this sentence has "
            f"{max(arrays.weights.shape[2:])}: use a shorter sentence"
        )
    return arrays.weights


def _draw_map(axes: Axes, weights: Float[np.ndarray, "T S"]) -> None:
    axes.imshow(weights, cmap=_COLOURS, vmin=0, vmax=1, aspect="equal", interpolation="nearest")
    axes.spines[:].set_color("#bbbbbb")
    axes.tick_params(length=0)


def _label_axes(axes: Axes, keys: Sequence[str], queries: Sequence[str]) -> None:
    axes.set_xticks(range(len(keys)), _labels(keys), rotation=60, ha="left", rotation_mode="anchor", fontsize=8)
    axes.xaxis.tick_top()
    axes.set_yticks(range(len(queries)), _labels(queries), fontsize=8)


def _labels(tokens: Sequence[str]) -> list[str]:
    # matplotlib would interpret an unescaped dollar sign as the start of a formula.
    return [(token.replace(SPACE_MARK, "") or "␣").replace("$", r"\$") for token in tokens]
