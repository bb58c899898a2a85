"""Figures of attention over pictures, for print.

Maps of query points: Zhang et al., "Self-Attention Generative Adversarial Networks" (2019), figures 1 and 5. Heat map
of a classification: Abnar and Zuidema, "Quantifying Attention Flow in Transformers" (2020), and Dosovitskiy et al., "An
Image is Worth 16x16 Words" (2021), figure 6.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dragoman.errors import SettingsError
from dragoman.picture_page.pixels import Pixels, as_rgb, check_maps, check_pictures, heat_map
from dragoman.printing import printable
from dragoman.rendering import Format, render

# The colours of Okabe and Ito without black, which are distinguishable with any kind of colour vision.
POINT_COLOURS = ("#d55e00", "#56b4e9", "#009e73", "#f0e442", "#cc79a7", "#0072b2", "#e69f00")
# Largest number of pictures in a figure.
MOST_PICTURES = 64
# Smallest side of a picture under a heat map, in pixels: a map over a smaller one would have coarse steps.
_FINE = 256
# Side of a picture in a figure, in inches.
_SIDE = 1.5
# Distance between pictures, and margin, in inches.
_GAP = 0.06
# Largest number of characters of a text beside and above a picture.
_LONGEST_BESIDE, _LONGEST_ABOVE = 24, 40


def draw_attention(
    pictures: UInt8[np.ndarray, "N h w C"],
    weights: Float[np.ndarray, "N Q S"],
    points: Sequence[Sequence[tuple[int, int]]],
    form: Format,
    *,
    grid: tuple[int, int],
    key_grid: tuple[int, int] | None = None,
    titles: Sequence[str] | None = None,
) -> bytes:
    """Return a figure with one row for each picture: the picture with its query points, then the map of each point.

    The colours of a map stand for the weights of its query, from 0 to the largest one, which is written below. The
    smallest weight is transparent.

    Args:
        pictures: the pictures.
        weights: attention weights from each position to each key, rows of the grids from top to bottom.
        points: for each picture, its query points as (row, column) of the grid; at most one for each of
            `POINT_COLOURS`.
        form: "png" or "svg".
        grid: height and width of the grid of positions, Q = height x width.
        key_grid: height and width of the grid of keys, S = height x width; None for that of the positions.
        titles: text beside each picture; None for no text.

    Raises:
        CorpusError: if there are no pictures, or a weight is negative or not finite.
        SettingsError: if there are more than `MOST_PICTURES` pictures, no points or too many, or a point is outside the
            grid.
    """
    check_pictures(pictures)
    key_grid = key_grid or grid
    count = len(pictures)
    assert weights.shape == (count, grid[0] * grid[1], key_grid[0] * key_grid[1]), (weights.shape, grid, key_grid)
    assert len(points) == count
    assert titles is None or len(titles) == count
    check_number(count)
    _check_points(points, grid)
    check_maps(weights)
    columns = 1 + max(map(len, points))
    layout = _Layout(
        count,
        columns,
        wide=_SIDE,
        high=_SIDE * pictures.shape[1] / pictures.shape[2],
        left=0.2 if titles else 0,
        below=0.16,
    )
    for row, picture in enumerate(pictures):
        beside = layout.axes(row, 0)
        _show(beside, as_rgb(picture))
        if titles is not None:
            beside.text(
                *(-0.04, 0.5, _title(titles[row], _LONGEST_BESIDE)),
                rotation=90,
                ha="right",
                va="center",
                fontsize=6.5,
                parse_math=False,
            )
        for place, point in enumerate(points[row]):
            colour = POINT_COLOURS[place]
            # [S] -> [c, d]
            weights_of_point = weights[row, point[0] * grid[1] + point[1]].reshape(key_grid)
            axes = layout.axes(row, 1 + place)
            _show(axes, heat_map(_fine(picture), weights_of_point))
            for target in (beside, axes):
                _dot(target, point, grid, colour)
            _frame(axes, colour)
            axes.text(
                0.5, 1.03, f"largest {weights_of_point.max():.1%}", ha="center", va="top", fontsize=5.5, color="#555"
            )
    return render(layout.figure, form)


def draw_heat_maps(
    pictures: UInt8[np.ndarray, "N h w C"],
    maps: Float[np.ndarray, "N a b"],
    labels: Sequence[str],
    probabilities: Sequence[float],
    form: Format,
    *,
    columns: int = 3,
) -> bytes:
    """Return a figure of classified pictures: each picture beside its heat map, such as its attention rollout.

    Args:
        pictures: the pictures.
        maps: a map over each picture, drawn from its smallest value (the dimmed picture) to its largest one (the
            brightest colour).
        labels: predicted label of each picture.
        probabilities: probability of each label, 0 to 1.
        form: "png" or "svg".
        columns: number of pictures in a row.

    Raises:
        CorpusError: if there are no pictures, or a value of a map is negative or not finite.
        SettingsError: if there are more than `MOST_PICTURES` pictures, or `columns` < 1.
    """
    check_pictures(pictures)
    count = len(pictures)
    assert len(maps) == len(labels) == len(probabilities) == count
    assert maps.ndim == 3
    check_number(count)
    if columns < 1:
        raise SettingsError(f"columns is {columns}; expected at least 1")
    check_maps(maps)
    columns = min(columns, count)
    # A picture and its map are one array, so that the title is over both.
    space = _FINE // 32
    high = _SIDE * pictures.shape[1] / pictures.shape[2]
    wide = _SIDE * (2 + space / _fine(pictures[0]).shape[1])
    layout = _Layout(-(-count // columns), columns, wide=wide, high=high, above=0.2)
    for number, (picture, values) in enumerate(zip(pictures, maps, strict=True)):
        fine = _fine(picture)
        white = np.full((len(fine), space, 3), 255, dtype=np.uint8)
        axes = layout.axes(number // columns, number % columns)
        _show(axes, np.concatenate([as_rgb(fine), white, heat_map(fine, values - values.min())], axis=1))
        title = f"{_title(labels[number], _LONGEST_ABOVE)}  {probabilities[number]:.0%}"
        axes.text(0.5, -0.03, title, ha="center", va="bottom", fontsize=7.5, parse_math=False)
    return render(layout.figure, form)


class _Layout:
    """A figure with cells of equal size in rows and columns; all lengths are in inches.

    Args:
        rows: number of rows.
        columns: number of columns.
        wide: width of a cell.
        high: height of a cell.
        left: additional margin on the left of the figure, for text.
        above: additional space above each row.
        below: additional space below each row.
    """

    def __init__(
        self, rows: int, columns: int, *, wide: float, high: float, left: float = 0, above: float = 0, below: float = 0
    ) -> None:
        self._size = wide, high
        self._left, self._above = left + _GAP, above
        self._step = wide + _GAP, high + above + below + _GAP
        self._total = left + columns * self._step[0] + _GAP, rows * self._step[1] + _GAP
        self.figure = Figure(figsize=self._total, dpi=200)

    def axes(self, row: int, column: int) -> Axes:
        """Return new axes without ticks and frame for a cell."""
        left = self._left + column * self._step[0]
        top = _GAP + row * self._step[1] + self._above
        width, height = self._total
        bottom = 1 - (top + self._size[1]) / height
        axes = self.figure.add_axes((left / width, bottom, self._size[0] / width, self._size[1] / height))
        axes.axis("off")
        return axes


def check_number(count: int) -> None:
    """Check the number of pictures of a figure.

    Raises:
        SettingsError: if there are more than `MOST_PICTURES` pictures.
    """
    if count > MOST_PICTURES:
        raise SettingsError(
            f"a figure shows at most {MOST_PICTURES} pictures, and there are {count}: use fewer pictures"
        )


def _check_points(points: Sequence[Sequence[tuple[int, int]]], grid: tuple[int, int]) -> None:
    for number, points_of_picture in enumerate(points, 1):
        if not 1 <= len(points_of_picture) <= len(POINT_COLOURS):
            raise SettingsError(
                f"picture {number} has {len(points_of_picture)} query points; expected 1 to {len(POINT_COLOURS)}"
            )
        for row, column in points_of_picture:
            if not (0 <= row < grid[0] and 0 <= column < grid[1]):
                raise SettingsError(
                    f"picture {number}: the query point in row {row}, column {column} is outside the grid of {grid[0]} "
                    f"rows and {grid[1]} columns (both count from 0)"
                )


def _fine(picture: Pixels) -> Pixels:
    """Return a picture of at least `_FINE` pixels on its shorter side, by repeating pixels."""
    scale = -(-_FINE // min(picture.shape[:2]))
    return picture.repeat(scale, axis=0).repeat(scale, axis=1)


def _show(axes: Axes, picture: Pixels) -> None:
    # Coordinates from 0 to 1 in both directions, from the top left corner, whatever the size of the picture.
    axes.imshow(picture, interpolation="nearest", extent=(0, 1, 1, 0), aspect="auto")


def _dot(axes: Axes, point: tuple[int, int], grid: tuple[int, int], colour: str) -> None:
    """Draw a dot at the centre of a position."""
    x, y = (point[1] + 0.5) / grid[1], (point[0] + 0.5) / grid[0]
    axes.plot(x, y, "o", markersize=5, markerfacecolor=colour, markeredgecolor="white", markeredgewidth=1.0)


def _frame(axes: Axes, colour: str) -> None:
    """Draw a frame in the colour of the query point, inside the picture."""
    axes.plot([0, 1, 1, 0, 0], [0, 0, 1, 1, 0], color=colour, linewidth=3.5, solid_joinstyle="miter")
    axes.set(xlim=(0, 1), ylim=(1, 0))


def _title(text: str, longest: int) -> str:
    text = printable(text)
    return text if len(text) <= longest else text[: longest - 1] + "…"
