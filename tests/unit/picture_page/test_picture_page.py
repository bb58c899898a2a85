"""The page of attention over pictures as a file: data, limits, and safety against hostile text."""

import base64
import io
import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dragoman.errors import CorpusError, SettingsError
from dragoman.picture_page import page as module
from dragoman.picture_page.data import LayerAttention, PictureAttention
from dragoman.picture_page.page import build_picture_page, save_picture_page
from tests.support.elements import Elements
from tests.support.made_pictures import made_picture_attention, made_weights


def payload_of(page: str) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(Elements(page).text("script", id="payload"))
    return payload


def test_the_page_contains_pictures_and_weights() -> None:
    pictures = made_picture_attention()
    entries = payload_of(build_picture_page(pictures, title="a title"))["pictures"]
    assert [entry["label"] for entry in entries] == [picture.label for picture in pictures]
    for entry, picture in zip(entries, pictures, strict=True):
        kind, _, data = entry["png"].partition(",")
        assert kind == "data:image/png;base64"
        assert (np.asarray(Image.open(io.BytesIO(base64.b64decode(data)))) == picture.picture).all()
        for read, layer in zip(entry["layers"], picture.layers, strict=True):
            assert (read["name"], read["heads"], tuple(read["grid"])) == (layer.name, len(layer.weights), layer.grid)
            expected = layer.weights
            if layer.class_token is not None:
                expected = np.concatenate([expected, layer.class_token[:, None]], axis=1)
            heads, queries, keys = expected.shape
            bytes_ = zlib.decompress(base64.b64decode(read["weights"]))
            largest = np.frombuffer(bytes_, dtype="<f4", count=heads * queries).reshape(heads, queries, 1)
            shares = np.frombuffer(bytes_, dtype=np.uint8, offset=4 * heads * queries).reshape(heads, queries, keys)
            # Half a step of a byte, relative to the largest weight of the query.
            assert (np.abs(largest * shares / 255 - expected) <= largest / 509).all()


def test_the_page_loads_nothing() -> None:
    page = build_picture_page(made_picture_attention(), title="a title")
    elements = Elements(page)
    for tag, attributes in elements.start_tags:
        assert "src" not in attributes
        assert attributes.get("href", "data:,") == "data:,"
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    style = elements.text("style")
    assert "url(" not in style
    assert "@import" not in style
    assert "{{" not in page
    script = elements.text("script", type="module")
    for word in ("innerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "import("):
        assert word not in script
    names = [(tag, attributes.get("http-equiv")) for tag, attributes in elements.start_tags]
    policy = names.index(("meta", "Content-Security-Policy"))
    assert policy < min(index for index, (tag, _) in enumerate(names) if tag in ("style", "script", "title", "link"))


@pytest.mark.parametrize(
    "hostile", ["</script><script>alert(1)</script>", "<!--<script>", "{{style}}", "&lt;", '"><img src=x>', "\ud800"]
)
def test_hostile_text_does_not_open_or_close_elements(hostile: str) -> None:
    plain = Elements(build_picture_page(made_picture_attention(), title="a title"))
    page = build_picture_page(made_picture_attention(label=hostile, layer=hostile), title=hostile)
    page.encode()
    elements = Elements(page)
    assert elements.start_tags == plain.start_tags
    if hostile != "\ud800":
        assert elements.text("title").strip() == elements.text("h1").strip() == hostile
    written = elements.text("script", id="payload")
    assert not {"<", ">", "&"} & set(written)
    [first, *_] = json.loads(written)["pictures"]
    assert first["label"] == first["layers"][0]["name"] == hostile


def test_weights_of_zero_and_grey_pictures() -> None:
    layer = LayerAttention(name="a", weights=np.zeros((1, 4, 4)), grid=(2, 2), key_grid=(2, 2))
    picture = PictureAttention(picture=np.zeros((5, 6, 1), dtype=np.uint8), label="", layers=(layer,))
    [entry] = payload_of(build_picture_page([picture], title=""))["pictures"]
    assert set(zlib.decompress(base64.b64decode(entry["layers"][0]["weights"]))) == {0}


def test_pages_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pictures = made_picture_attention()
    with pytest.raises(CorpusError, match="there are 0 pictures; a page shows 1 to 200"):
        build_picture_page([], title="")
    with pytest.raises(CorpusError, match="there are 201 pictures"):
        build_picture_page(pictures[:1] * 201, title="")
    with pytest.raises(SettingsError, match=r"ends in \.html"):
        save_picture_page(pictures, tmp_path / "page.png", title="")
    monkeypatch.setattr(module, "MOST_WEIGHTS", 100)
    with pytest.raises(CorpusError, match="attention weights, and a page contains at most 100"):
        save_picture_page(pictures, tmp_path / "page.html", title="")
    assert list(tmp_path.iterdir()) == []
    for broken in (np.nan, np.inf, -1.0):
        with pytest.raises(CorpusError, match="not finite, or below 0"):
            LayerAttention(name="a", weights=np.full((1, 1, 1), broken), grid=(1, 1), key_grid=(1, 1))
    with pytest.raises(AssertionError):
        LayerAttention(name="a", weights=made_weights(2, 6, 6), grid=(2, 2), key_grid=(2, 3))
    with pytest.raises(AssertionError):
        PictureAttention(picture=pictures[0].picture, label="", layers=())


def test_a_saved_page_is_the_built_page(tmp_path: Path) -> None:
    pictures = made_picture_attention()
    save_picture_page(pictures, tmp_path / "page.html", title="a title")
    assert (tmp_path / "page.html").read_text() == build_picture_page(pictures, title="a title")
