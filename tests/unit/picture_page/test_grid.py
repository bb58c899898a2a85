"""Grids of pictures: exact pixels, labels, files."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dragoman.errors import CorpusError, SettingsError
from dragoman.picture_page import grid as module
from dragoman.picture_page.grid import LABEL_HEIGHT, neighbour_grid, picture_grid
from dragoman.picture_page.pixels import as_png, heat_map, save_png
from tests.support.made_pictures import made_pictures


def test_a_small_grid_pixel_by_pixel() -> None:
    """Three grey pictures of 1 x 2 pixels in two columns, with a gap of 1."""
    pictures = np.array([[[[10], [20]]], [[[30], [40]]], [[[50], [60]]]], dtype=np.uint8)
    grid = picture_grid(pictures, 2, gap=1)
    w = 255
    expected = [
        [w, w, w, w, w, w, w],
        [w, 10, 20, w, 30, 40, w],
        [w, w, w, w, w, w, w],
        [w, 50, 60, w, w, w, w],
        [w, w, w, w, w, w, w],
    ]
    for channel in range(3):
        assert grid[:, :, channel].tolist() == expected


def test_colours_and_scale() -> None:
    [red] = pictures = np.array([[[[255, 0, 0]]]], dtype=np.uint8)
    grid = picture_grid(pictures, 5, scale=3, gap=0)
    assert grid.shape == (3, 3, 3)
    assert (grid == red).all()


def test_labels_are_below_their_pictures_and_as_wide() -> None:
    pictures = np.zeros((3, 20, 30, 1), dtype=np.uint8)
    labels = ["", "a label that is much wider than the picture", "c"]
    grid = picture_grid(pictures, 3, labels, gap=4)
    assert grid.shape == (4 + 20 + 4 + LABEL_HEIGHT, 4 + 3 * 34, 3)
    below = grid[24 : 24 + LABEL_HEIGHT, :, 0] < 200
    inked = [int(below[:, 4 + 34 * column : 34 + 34 * column].sum()) for column in range(3)]
    assert inked[0] == 0
    assert 0 < inked[2] < inked[1]
    assert below.sum() == sum(inked), "no ink in the gaps"
    assert (grid == picture_grid(pictures, 3, labels, gap=4)).all()


@pytest.mark.parametrize("label", ["\x00\n\x1b[31m", "\ud800", "汉字", "‮abc", "x" * 10_000])
def test_any_label_can_be_drawn(label: str) -> None:
    assert picture_grid(made_pictures(1, 30, 40), 1, [label]).shape[1] == 44


def test_rows_of_neighbours() -> None:
    queries, training = made_pictures(2), made_pictures(5, colours=1)
    indices, distances = np.array([[4, 0, 1], [2, 2, 3]]), np.array([[0.0, 1.5, 2e6], [1.0, 2.0, 3.0]])
    grid = neighbour_grid(queries, training, indices, distances, scale=2)
    # Pictures of 24 x 16 pixels; a wide gap of 8 pixels after the generated ones.
    row = 24 + 2 + LABEL_HEIGHT
    assert grid.shape == (2 + 2 * row, (2 + 18) + 8 + (2 + 3 * 18), 3)
    for number in range(2):
        top = 2 + number * row
        assert (grid[top : top + 24 : 2, 2:18:2] == queries[number]).all()
        for place in range(3):
            left = 30 + 18 * place
            assert (grid[top : top + 24 : 2, left : left + 16 : 2] == training[indices[number, place]]).all()


def test_grids_that_cannot_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = made_pictures()
    with pytest.raises(SettingsError, match="columns is 0"):
        picture_grid(pictures, 0)
    with pytest.raises(SettingsError, match="scale is 0"):
        picture_grid(pictures, 1, scale=0)
    with pytest.raises(CorpusError, match="there are no pictures to draw: 0 x 12 x 8 x 3"):
        picture_grid(pictures[:0], 1)
    monkeypatch.setattr(module, "LARGEST", 1000)
    with pytest.raises(SettingsError, match="more than 1,000"):
        picture_grid(pictures, 1, scale=4)
    for wrong in (pictures.astype(np.float32), pictures[0], pictures[..., :2]):
        with pytest.raises(AssertionError, match="expected"):
            picture_grid(wrong, 1)


@pytest.mark.parametrize("colours", [1, 3])
def test_png_files_contain_the_pixels(tmp_path: Path, colours: int) -> None:
    [picture] = made_pictures(1, colours=colours)
    save_png(picture, tmp_path / "a.png")
    data = (tmp_path / "a.png").read_bytes()
    assert data == as_png(picture)
    read = np.asarray(Image.open(io.BytesIO(data)))
    assert (read.reshape(picture.shape) == picture).all()
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]
    with pytest.raises(SettingsError, match=r"ends in \.png"):
        save_png(picture, tmp_path / "a.jpg")


def test_a_heat_map_is_brightest_at_the_largest_weight() -> None:
    grey = np.full((40, 40, 1), 100, dtype=np.uint8)
    weights = np.zeros((4, 4))
    assert (heat_map(grey, weights) == 40).all(), "a dimmed picture"
    weights[1, 3] = 0.2
    heat = heat_map(grey, weights)
    # Row 1, column 3 of cells of 10 x 10 pixels.
    assert np.unravel_index(heat.sum(axis=-1).argmax(), (40, 40)) == pytest.approx((15, 35), abs=5)
    assert (heat[30:, :20] == 40).all()
    assert (heat_map(grey, weights * 5) == heat).all(), "relative to the largest weight"
