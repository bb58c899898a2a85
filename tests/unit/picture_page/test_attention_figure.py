"""Figures of attention over pictures: contents, reproducible bytes, hostile text, limits."""

import io

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from dragoman.errors import CorpusError, SettingsError
from dragoman.picture_page.attention_figure import MOST_PICTURES, POINT_COLOURS, draw_attention, draw_heat_maps
from dragoman.picture_page.pixels import DIMMED, heat_map
from tests.support.made_pictures import made_pictures, made_weights

PICTURES, WEIGHTS = made_pictures(), made_weights(3, 24, 6)
POINTS = [[(0, 0), (5, 3)], [(2, 1)], [(1, 1), (2, 2), (3, 3)]]


def has_colour(png: bytes, colour: str) -> bool:
    pixels = imread(io.BytesIO(png))[:, :, :3]
    return bool((np.abs(pixels - to_rgb(colour)).max(axis=-1) < 0.01).any())


def test_points_have_their_colours_and_maps_their_largest_weight() -> None:
    png = draw_attention(PICTURES, WEIGHTS, POINTS, "png", grid=(6, 4), key_grid=(3, 2))
    assert png == draw_attention(PICTURES, WEIGHTS, POINTS, "png", grid=(6, 4), key_grid=(3, 2))
    for place, colour in enumerate(POINT_COLOURS):
        assert has_colour(png, colour) == (place < 3)
    svg = draw_attention(
        PICTURES, WEIGHTS, POINTS, "svg", grid=(6, 4), key_grid=(3, 2), titles=["one", "<b>two</b>", "$x$"]
    ).decode()
    for row, points in enumerate(POINTS):
        for y, x in points:
            assert f"largest {WEIGHTS[row, 4 * y + x].max():.1%}" in svg
    assert "&lt;b&gt;two&lt;/b&gt;" in svg
    assert "<b>" not in svg
    assert "$x$" in svg


def test_a_map_is_brightest_where_its_query_attends() -> None:
    """All weight on the key in the bottom right corner of a black picture."""
    weights = np.zeros((1, 24, 6))
    weights[:, :, 5] = 1.0
    picture = np.zeros((1, 60, 40, 1), dtype=np.uint8)
    pixels = imread(io.BytesIO(draw_attention(picture, weights, [[(0, 0)]], "png", grid=(6, 4), key_grid=(3, 2))))[
        :, :, :3
    ]
    height, width = pixels.shape[:2]
    # The map is the right half of the figure. Its frame has the colour of the point.
    rows, columns = slice(int(0.1 * height), int(0.85 * height)), slice(int(0.58 * width), int(0.95 * width))
    brightness = pixels[rows, columns].sum(axis=-1)
    quarters = [half.mean() for side in np.array_split(brightness, 2) for half in np.array_split(side, 2, axis=1)]
    assert np.argmax(quarters) == 3


def test_the_smallest_weight_leaves_the_dimmed_picture_visible() -> None:
    picture = np.full((8, 8, 1), 200, dtype=np.uint8)
    pixels = heat_map(picture, np.array([[0.24, 0.26]]))
    assert (pixels[:, 0] == round(200 * DIMMED)).all()
    assert (np.ptp(pixels[:, -1].astype(int), axis=-1) > 50).all()
    assert (heat_map(picture, np.full((2, 2), 0.25)) == round(200 * DIMMED)).all()


def test_heat_maps_have_label_and_probability() -> None:
    maps = made_weights(3, 5, 7)
    labels = ["cat", "</text><script>alert(1)</script>", "汉字 " + "long " * 50]
    svg = draw_heat_maps(PICTURES, maps, labels, [0.934, 0.5, 0.001], "svg", columns=2).decode()
    assert "cat  93%" in svg
    assert "<script" not in svg
    assert "…  0%" in svg
    assert draw_heat_maps(PICTURES[:1], maps[:1], ["a"], [1.0], "png").startswith(b"\x89PNG")


@pytest.mark.parametrize("title", ["\x00\n\x1b[31m", "\ud800", "‮abc", "\U000f0000"])
def test_any_title_can_be_drawn(title: str) -> None:
    draw_heat_maps(PICTURES[:1], made_weights(1, 2, 2), [title], [0.5], "png")
    draw_attention(PICTURES[:1], WEIGHTS[:1], POINTS[:1], "svg", grid=(6, 4), key_grid=(3, 2), titles=[title])


def test_figures_that_cannot_be_drawn() -> None:
    def draw(pictures: object = PICTURES, weights: object = WEIGHTS, points: object = POINTS) -> bytes:
        return draw_attention(pictures, weights, points, "png", grid=(6, 4), key_grid=(3, 2))  # type: ignore[arg-type]

    for point in ((6, 0), (0, 4), (-1, 0)):
        with pytest.raises(SettingsError, match=f"picture 2: the query point in row {point[0]}, column {point[1]} is"):
            draw(points=[[(0, 0)], [point], [(0, 0)]])
    with pytest.raises(SettingsError, match="picture 1 has 0 query points; expected 1 to 7"):
        draw(points=[[], [(0, 0)], [(0, 0)]])
    for broken in (np.nan, np.inf, -0.1):
        weights = WEIGHTS.copy()
        weights[1, 2, 3] = broken
        with pytest.raises(CorpusError, match="not finite, or below 0"):
            draw(weights=weights)
        with pytest.raises(CorpusError, match="not finite, or below 0"):
            draw_heat_maps(PICTURES, weights, ["a"] * 3, [0.5] * 3, "png")
    with pytest.raises(AssertionError):
        draw(weights=WEIGHTS[:, :-1])
    many = np.repeat(PICTURES[:1], MOST_PICTURES + 1, axis=0)
    with pytest.raises(SettingsError, match=f"at most {MOST_PICTURES} pictures"):
        draw_heat_maps(many, made_weights(MOST_PICTURES + 1, 2, 2), ["a"] * 65, [0.5] * 65, "png")
    with pytest.raises(SettingsError, match="columns is 0"):
        draw_heat_maps(PICTURES, made_weights(3, 2, 2), ["a"] * 3, [0.5] * 3, "png", columns=0)
    with pytest.raises(CorpusError, match="no pictures"):
        draw(PICTURES[:0], WEIGHTS[:0], [])
