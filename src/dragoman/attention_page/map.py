"""The attention for one sentence that shows itself: what `Translator.attention` returns."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.data import AttentionData
from dragoman.attention_page.kinds import Head, Kind
from dragoman.attention_page.page import build_page
from dragoman.errors import SettingsError
from dragoman.files import write_atomically

if TYPE_CHECKING:
    from dragoman.attention_page.plots import Format

PICTURES: dict[str, Format] = {".png": "png", ".svg": "svg"}
SUFFIXES = (".html", *PICTURES, ".npz", ".json")
# What is written under these names holds `AttentionArrays.details` too.
WITH_DETAILS = (".html", ".npz")


def check_suffix(path: Path) -> None:
    """Raise SettingsError when `AttentionMap.save` writes nothing under such a name."""
    if path.suffix not in SUFFIXES:
        raise SettingsError(f"{path}: choose a name that ends in {', '.join(SUFFIXES)}")


class AttentionMap(AttentionData):
    """`AttentionData` that shows itself in a notebook, and that `save` writes as a page, a picture or numbers."""

    def save(self, path: Path | str, *, kind: Kind = "encoder_decoder", head: Head | None = None) -> None:
        """Write a page (.html), a picture (.png, .svg), arrays (.npz) or numbers (.json).

        kind  of a picture: the attention whose heads it shows
        head  of a picture: the one head to show, with its numbers; `kind` then does not matter

        Raises:
            SettingsError: for another suffix, or a head that the model does not have. Nothing is half-written.
            ModelError: for a kind of attention that the model does not have.
            CorpusError: for a sentence that is too long to draw.
            OSError: when it cannot be written there.
        """
        path = Path(path)
        check_suffix(path)
        if path.suffix in PICTURES:
            data = self.picture(PICTURES[path.suffix], kind=kind, head=head)
        elif path.suffix == ".html":
            data = self.to_html().encode()
        elif path.suffix == ".npz":
            data = self._to_npz()
        else:
            data = json.dumps(self.to_json(), ensure_ascii=False).encode()
        write_atomically(path, data)

    def picture(self, form: Format, *, kind: Kind = "encoder_decoder", head: Head | None = None) -> bytes:
        """Return a picture of every head of one kind, or of one head; see `save`."""
        # matplotlib takes a second to import.
        from dragoman.attention_page.plots import draw_head, draw_heads

        return draw_heads(self, form, kind) if head is None else draw_head(self, head, form)

    def to_html(self) -> str:
        """Return the page: one file that needs no network."""
        return build_page(self)

    def to_json(self) -> dict[str, object]:
        """Return plain values for `json.dump`."""
        values: dict[str, object] = {
            "text": self.text,
            "translation": self.translation,
            "source": list(self.source),
            "target": list(self.target),
            "predicted": list(self.predicted),
            "log_probability": self.log_probability,
            "right_to_left": self.right_to_left,
        }
        for kind, arrays in self.kinds():
            values[kind] = {name: array.tolist() for name, array in _named(arrays)}
        if self.candidates:
            values["candidates"] = [[[each.token, each.probability] for each in some] for some in self.candidates]
        if self.without:
            values["with_all"] = self.with_all
            values["without"] = [
                {**each.head._asdict(), "translation": each.translation, "log_probability": each.log_probability}
                for each in self.without
            ]
        return values

    def _to_npz(self) -> bytes:
        arrays = {
            **{name: np.array(getattr(self, name)) for name in ("source", "target", "predicted", "right_to_left")},
            **{f"{kind}.{name}": array for kind, some in self.kinds() for name, array in _named(some)},
        }
        data = io.BytesIO()
        np.savez_compressed(data, allow_pickle=False, **arrays)
        return data.getvalue()

    def _repr_html_(self) -> str:
        # A frame of its own: neither the notebook's styles nor its scripts reach the page.
        return (
            f'<iframe srcdoc="{html.escape(self.to_html())}" sandbox="allow-scripts" '
            'style="width: 100%; height: 720px; border: 0"></iframe>'
        )


def _named(arrays: AttentionArrays) -> Iterator[tuple[str, np.ndarray]]:
    yield "weights", arrays.weights
    if arrays.details is not None:
        for name in ("query", "key", "value", "output", "output_norm", "bias"):
            array = getattr(arrays.details, name)
            if array is not None:
                yield name, array
