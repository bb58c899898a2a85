"""Grids of pictures: samples of a generator, and generated pictures beside their nearest training pictures."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from jaxtyping import Float, Int, UInt8
from PIL import Image, ImageDraw, ImageFont

from dragoman.errors import SettingsError
from dragoman.picture_page.pixels import as_rgb, check_pictures, enlarge
from dragoman.printing import printable

# Colours of the space between pictures and of labels, 0 to 255.
BACKGROUND, INK = 255, 60
# Size of labels, and height of a line of labels, in pixels.
LABEL_SIZE, LABEL_HEIGHT = 11, 16
# Largest number of pixels of a grid: 100 megapixels, 300 MB.
LARGEST = 100_000_000


def picture_grid(
    images: UInt8[np.ndarray, "N h w C"],
    columns: int,
    labels: Sequence[str] | None = None,
    *,
    scale: int = 1,
    gap: int = 2,
) -> UInt8[np.ndarray, "H W 3"]:
    """Return pictures side by side, row after row, on white.

    Args:
        images: pictures of one size, with 1 or 3 colours.
        columns: number of pictures in a row; the last row may be shorter.
        labels: text below each picture, shortened to its width; None for no labels.
        scale: side of the square, in pixels, that represents one pixel of a picture.
        gap: distance between pictures, and margin around the grid, in pixels.

    Raises:
        CorpusError: if there are no pictures.
        SettingsError: if `columns` or `scale` is below 1, `gap` is below 0, or the grid has more than `LARGEST` pixels.

    Example:
        >>> import numpy as np
        >>> picture_grid(np.zeros((3, 8, 8, 1), dtype=np.uint8), columns=2).shape
        (22, 22, 3)
    """
    check_pictures(images)
    if columns < 1 or scale < 1 or gap < 0:
        raise SettingsError(
            f"columns is {columns}, scale is {scale}, gap is {gap}; expected columns >= 1, scale >= 1, gap >= 0"
        )
    assert labels is None or len(labels) == len(images)
    count, height, width, _ = images.shape
    height, width = height * scale, width * scale
    rows, columns = -(-count // columns), min(columns, count)
    row_height = height + gap + (0 if labels is None else LABEL_HEIGHT)
    shape = (gap + rows * row_height, gap + columns * (width + gap), 3)
    if shape[0] * shape[1] > LARGEST:
        raise SettingsError(
            f"the grid has {shape[1]:,} x {shape[0]:,} pixels, more than {LARGEST:,}: use fewer pictures or a "
            "smaller scale"
        )
    grid = np.full(shape, BACKGROUND, dtype=np.uint8)
    for number, picture in enumerate(as_rgb(images)):
        top = gap + number // columns * row_height
        left = gap + number % columns * (width + gap)
        grid[top : top + height, left : left + width] = enlarge(picture[None], scale)[0]
        if labels is not None:
            grid[top + height : top + height + LABEL_HEIGHT, left : left + width] = _label(labels[number], width)
    return grid


def neighbour_grid(
    queries: UInt8[np.ndarray, "N h w C"],
    training: UInt8[np.ndarray, "M h w C"],
    indices: Int[np.ndarray, "N k"],
    distances: Float[np.ndarray, "N k"],
    *,
    scale: int = 1,
) -> UInt8[np.ndarray, "H W 3"]:
    """Return one row for each generated picture: the picture, then its nearest training pictures with their distances.

    Args:
        queries: the generated pictures.
        training: the training pictures, of the same size.
        indices: nearest training pictures of each query, as `evaluation.nearest_neighbours` returns them.
        distances: their distances.
        scale: see `picture_grid`.

    Raises:
        CorpusError: if there are no pictures.
        SettingsError: see `picture_grid`.
    """
    check_pictures(queries)
    check_pictures(training)
    assert queries.shape[1:3] == training.shape[1:3]
    assert indices.shape == distances.shape == (len(queries), indices.shape[1])
    left = picture_grid(queries, 1, ["generated"] * len(queries), scale=scale)
    # [N k, h, w, C]
    nearest = training[indices.reshape(-1)]
    texts = [f"{distance:.3g}" for distance in distances.reshape(-1).tolist()]
    right = picture_grid(nearest, indices.shape[1], texts, scale=scale)
    # A wide gap separates generated from real pictures.
    space = np.full((len(left), 4 * scale, 3), BACKGROUND, dtype=np.uint8)
    return np.concatenate([left, space, right], axis=1)


def _label(text: str, width: int) -> UInt8[np.ndarray, "LABEL_HEIGHT width 3"]:
    """Return a text in the middle of a line, shortened to the width."""
    font = _font()
    # No character is narrower than a pixel, except marks: the rest of a very long text is not measured.
    text = printable(text)[: width + 1]
    if font.getlength(text) > width:
        while text and font.getlength(text + "…") > width:
            text = text[:-1]
        text += "…"
    line = Image.new("L", (width, LABEL_HEIGHT), BACKGROUND)
    ImageDraw.Draw(line).text((width / 2, LABEL_HEIGHT / 2), text, fill=INK, font=font, anchor="mm")
    return as_rgb(np.asarray(line)[:, :, None])


@lru_cache
def _font() -> ImageFont.FreeTypeFont:
    # Imported here, because importing matplotlib takes a second and grids without labels do not need it.
    from matplotlib import font_manager

    from dragoman.rendering import FONT

    # Raqm, which shapes complex scripts, gives other widths where it is installed.
    return ImageFont.truetype(font_manager.findfont(FONT), LABEL_SIZE, layout_engine=ImageFont.Layout.BASIC)
