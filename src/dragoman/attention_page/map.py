"""Attention maps: the result of `Translator.attention`, and the files that it can be saved to."""

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
    from dragoman.rendering import Format

PICTURES: dict[str, Format] = {".png": "png", ".svg": "svg"}
SUFFIXES = (".html", *PICTURES, ".npz", ".json")
# Files with these suffixes also contain `AttentionArrays.details`.
WITH_DETAILS = (".html", ".npz")


def check_suffix(path: Path) -> None:
    """Check the name of a file for `AttentionMap.save`.

    Raises:
        SettingsError: the suffix is not one of `SUFFIXES`.
    """
    if path.suffix not in SUFFIXES:
        raise SettingsError(f"{path}: choose a name that ends in {', '.join(SUFFIXES)}")


class AttentionMap(AttentionData):
    """Attention for one sentence, which can be saved as a page, a picture or numbers.

    Returned by `Translator.attention` and, for language models and encoders, by `TextAnalyzer.attention`.

    In a notebook, an attention map is displayed as the interactive page.

    Example:
        >>> from dragoman import Translator
        >>> translator = Translator.load("models/mine")
        >>> attention = translator.attention("Turn off the light.", "Schalte das Licht aus.")
        >>> attention.source[-1], attention.target[0]
        ('</s>', '<s>')
    """

    def save(self, path: Path | str, *, kind: Kind | None = None, head: Head | None = None) -> None:
        """Save as a page (.html), a picture (.png, .svg), NumPy arrays (.npz) or JSON (.json).

        The file is written atomically.

        Args:
            path: the file; its suffix selects the format.
            kind: for a picture of all heads: the kind of attention; by default, the encoder-decoder attention, or the
                self-attention of a model of one text.
            head: for a picture of one head with its weights: the head; `kind` is then ignored.

        Raises:
            SettingsError: the suffix is not supported, or the model does not have this head.
            ModelError: the model does not have this kind of attention.
            CorpusError: the sentence is too long to draw.
            OSError: the file cannot be written.

        Example:
            >>> from dragoman import Translator
            >>> translator = Translator.load("models/mine")
            >>> attention = translator.attention("Turn off the light.")
            >>> attention.save("attention.html")
            >>> attention.save("attention.json")
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

    def picture(self, form: Format, *, kind: Kind | None = None, head: Head | None = None) -> bytes:
        """Return a picture of all heads of one kind, or of one head, as bytes.

        Args:
            form: "png" or "svg".
            kind: the kind of attention; see `save`.
            head: the only head to show; `kind` is then ignored.

        Raises:
            SettingsError: the model does not have this head.
            ModelError: the model does not have this kind of attention.
            CorpusError: the sentence is too long to draw.
        """
        # Imported here, because importing matplotlib takes a second.
        from dragoman.attention_page.plots import draw_head, draw_heads

        return draw_heads(self, form, kind) if head is None else draw_head(self, head, form)

    def to_html(self) -> str:
        """Return the page as HTML that needs no network.

        Raises:
            CorpusError: the sentence is too long for a page.
        """
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
            values[kind] = {name: array.tolist() for name, array in _named_arrays(arrays)}
        if self.candidates:
            values["candidates"] = [
                [[candidate.token, candidate.probability] for candidate in candidates] for candidates in self.candidates
            ]
        if self.without:
            values["with_all"] = self.with_all
            values["without"] = [
                {
                    **result.head._asdict(),
                    "translation": result.translation,
                    "log_probability": result.log_probability,
                }
                for result in self.without
            ]
        return values

    def _to_npz(self) -> bytes:
        arrays = {
            **{name: np.array(getattr(self, name), dtype=np.str_) for name in ("source", "target", "predicted")},
            "right_to_left": np.array(self.right_to_left),
            **{f"{kind}.{name}": array for kind, arrays in self.kinds() for name, array in _named_arrays(arrays)},
        }
        data = io.BytesIO()
        np.savez_compressed(data, allow_pickle=False, **arrays)
        return data.getvalue()

    def _repr_html_(self) -> str:
        # A separate frame, so that the styles and scripts of the notebook do not affect the page.
        return (
            f'<iframe srcdoc="{html.escape(self.to_html())}" sandbox="allow-scripts" '
            'style="width: 100%; height: 720px; border: 0"></iframe>'
        )


def _named_arrays(arrays: AttentionArrays) -> Iterator[tuple[str, np.ndarray]]:
    yield "weights", arrays.weights
    if arrays.details is not None:
        yield "scale", np.array(arrays.details.scale)
        for name in ("query", "key", "value", "output", "output_norm", "bias"):
            array = getattr(arrays.details, name)
            if array is not None:
                yield name, array
