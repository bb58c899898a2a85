"""The page of attention over pictures: one self-contained HTML file, in which a position shows where it attends.

The page contains the pictures as PNG, the weights as bytes relative to the largest weight of each query, and its own
scripts (`static/`), which are concatenated in the order of `SCRIPTS`. It loads and sends nothing.
"""

import base64
import zlib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import numpy as np

from dragoman.errors import CorpusError, SettingsError
from dragoman.files import write_atomically
from dragoman.html_page import as_html, as_script_data, fill_template
from dragoman.picture_page.data import LayerAttention, PictureAttention
from dragoman.picture_page.pixels import HEAT, as_png

SCRIPTS = ("data", "controls", "view")
# Largest numbers of pictures, and of weights of all pictures: 60 MB of HTML.
MOST_PICTURES, MOST_WEIGHTS = 200, 40_000_000
_STATIC = resources.files("dragoman.picture_page") / "static"


def build_picture_page(pictures: Sequence[PictureAttention], *, title: str) -> str:
    """Return the page as HTML that needs no network.

    Args:
        pictures: pictures with the attention over them; their sizes and layers may differ.
        title: title of the page, as plain text.

    Raises:
        CorpusError: if there are no pictures, more than `MOST_PICTURES`, or more than `MOST_WEIGHTS` weights.

    Example:
        >>> import numpy as np
        >>> layer = LayerAttention(name="layer 1", weights=np.full((1, 4, 4), 0.25), grid=(2, 2), key_grid=(2, 2))
        >>> picture = PictureAttention(picture=np.zeros((8, 8, 1), np.uint8), label="black", layers=(layer,))
        >>> build_picture_page([picture], title="Attention").startswith("<!doctype html>")
        True
    """
    weights = sum(layer.weights.size for picture in pictures for layer in picture.layers)
    check_page_size(len(pictures), weights)
    parts = {
        "title": as_html(title),
        "style": _read("style.css"),
        "payload": as_script_data({"heat": HEAT, "pictures": [_picture_entry(picture) for picture in pictures]}),
        "script": "\n".join(_read(f"{name}.js") for name in SCRIPTS),
    }
    return fill_template(_read("page.html"), parts)


def check_page_size(pictures: int, weights: int) -> None:
    """Check the number of pictures and of attention weights of a page, which may be done before they are computed.

    Raises:
        CorpusError: if there are no pictures, more than `MOST_PICTURES`, or more than `MOST_WEIGHTS` weights.
    """
    if not 1 <= pictures <= MOST_PICTURES:
        raise CorpusError(f"there are {pictures} pictures; a page shows 1 to {MOST_PICTURES}")
    if weights > MOST_WEIGHTS:
        raise CorpusError(
            f"the pictures have {weights:,} attention weights, and a page contains at most {MOST_WEIGHTS:,}: use fewer "
            "pictures or layers"
        )


def save_picture_page(pictures: Sequence[PictureAttention], path: Path, *, title: str) -> None:
    """Write the page as an HTML file, atomically.

    Raises:
        CorpusError: see `build_picture_page`.
        SettingsError: if the name does not end in .html.
        OSError: if the file cannot be written.
    """
    if path.suffix != ".html":
        raise SettingsError(f"{path}: choose a name that ends in .html")
    write_atomically(path, build_picture_page(pictures, title=title).encode())


def _picture_entry(picture: PictureAttention) -> dict[str, object]:
    height, width, _ = picture.picture.shape
    return {
        "label": picture.label,
        "height": height,
        "width": width,
        "png": "data:image/png;base64," + base64.b64encode(as_png(picture.picture)).decode(),
        "layers": [_layer_entry(layer) for layer in picture.layers],
    }


def _layer_entry(layer: LayerAttention) -> dict[str, object]:
    weights = layer.weights.astype(np.float64)
    if layer.class_token is not None:
        # [H, Q + 1, S]: the class token is the last query.
        weights = np.concatenate([weights, layer.class_token[:, None]], axis=1)
    # [H, Q]
    largest = weights.max(axis=-1)
    # [H, Q, S]: 255 is the largest weight of the query.
    shares = np.rint(255 * weights / np.where(largest > 0, largest, 1)[:, :, None]).astype(np.uint8)
    packed = zlib.compress(largest.astype("<f4").tobytes() + shares.tobytes(), 9)
    return {
        "name": layer.name,
        "heads": len(weights),
        "grid": layer.grid,
        "keyGrid": layer.key_grid,
        "classToken": layer.class_token is not None,
        "weights": base64.b64encode(packed).decode(),
    }


def _read(name: str) -> str:
    return (_STATIC / name).read_text(encoding="utf-8")
