"""The attention for one sentence with its words: what `Translator.attention` returns."""

from __future__ import annotations

import html
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dragoman.attention_page.arrays import AttentionArrays
from dragoman.attention_page.kinds import KINDS, Head, Kind
from dragoman.errors import UserError
from dragoman.files import write_atomically
from dragoman.text.words import Words

SUFFIXES = (".html", ".png", ".svg", ".npz", ".json")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A token that could stand at a position, and how probable the model finds it."""

    token: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Without:
    """What happens without one head.

    translation      what the model says then (greedy search)
    log_probability  what it then gives to the translation of the map, in nats
    """

    head: Head
    translation: str
    log_probability: float


@dataclass(frozen=True, kw_only=True)
class AttentionMap:
    """Every weight of every head for one sentence and its translation.

    It shows itself in a notebook, and `save` writes it as a page, a picture or numbers.

    text, translation  as people write them
    source             the S tokens that the encoder reads, "</s>" at the end
    target             the T tokens that the decoder reads, "<s>" at the beginning: the queries and keys of its
                       self-attention
    predicted          the T tokens that it gives in their place, "</s>" at the end: what a row of the encoder-decoder
                       attention looked for
    encoder_self, decoder_self, encoder_decoder
                       the weights, [N, H, S, S], [N, H, T, T] and [N, H, T, S]; None where the architecture has none
    log_probability    of the translation, EOS included, in nats
    candidates         the most probable tokens at each of the T positions, if they were asked for
    without            what each single head does, if that was asked for
    with_all           what greedy search says with all heads, to compare the translations of `without` with
    right_to_left      the model writes the translation from its end: the tokens of target and predicted are in that
                       order
    """

    text: str
    translation: str
    source: tuple[str, ...]
    target: tuple[str, ...]
    predicted: tuple[str, ...]
    encoder_self: AttentionArrays | None
    decoder_self: AttentionArrays | None
    encoder_decoder: AttentionArrays | None
    log_probability: float
    candidates: tuple[tuple[Candidate, ...], ...] = ()
    without: tuple[Without, ...] = ()
    with_all: str = ""
    right_to_left: bool = False

    def kinds(self) -> Iterator[tuple[Kind, AttentionArrays]]:
        """The kinds of attention that there are, with their arrays."""
        for kind in KINDS:
            arrays: AttentionArrays | None = getattr(self, kind)
            if arrays is not None:
                yield kind, arrays

    def queries(self, kind: Kind) -> tuple[str, ...]:
        """The tokens of the rows of its weights."""
        return {"encoder_self": self.source, "decoder_self": self.target, "encoder_decoder": self.predicted}[kind]

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """The tokens of the columns of its weights."""
        return self.target if kind == "decoder_self" else self.source

    def words(self) -> AttentionMap:
        """The same with subwords merged to words: weights to a word are summed, from a word averaged.

        What belongs to single tokens (details, candidates) is left out. <s> and </s> stay words of their own.
        """
        source = Words.of(self.source)
        target, predicted = (Words.of(row, right_to_left=self.right_to_left) for row in (self.target, self.predicted))

        def merged(arrays: AttentionArrays | None, queries: Words, keys: Words) -> AttentionArrays | None:
            return None if arrays is None else AttentionArrays(queries.mean(keys.sum(arrays.weights, -1), -2))

        return AttentionMap(
            text=self.text,
            translation=self.translation,
            source=source.texts,
            target=target.texts,
            predicted=predicted.texts,
            encoder_self=merged(self.encoder_self, source, source),
            decoder_self=merged(self.decoder_self, target, target),
            encoder_decoder=merged(self.encoder_decoder, predicted, source),
            log_probability=self.log_probability,
            without=self.without,
            with_all=self.with_all,
            right_to_left=self.right_to_left,
        )

    def save(self, path: Path | str) -> None:
        """Write a page (.html), a picture of all heads (.png, .svg), arrays (.npz) or numbers (.json).

        Raises:
            UserError: for another suffix, or a sentence that is too long to draw. Nothing is half-written.
            OSError: when it cannot be written there.
        """
        path = Path(path)
        match path.suffix:
            case ".html":
                data = self.to_html().encode()
            case ".png" | ".svg":
                from dragoman.attention_page.plots import draw_heads

                data = draw_heads(self, "png" if path.suffix == ".png" else "svg")
            case ".npz":
                data = self._to_npz()
            case ".json":
                data = json.dumps(self.to_json(), ensure_ascii=False).encode()
            case _:
                raise UserError(f"{path}: choose a name that ends in {', '.join(SUFFIXES)}")
        write_atomically(path, data)

    def to_html(self) -> str:
        """The page: one file that needs no network."""
        from dragoman.attention_page.page import build_page

        return build_page(self)

    def to_json(self) -> dict[str, object]:
        """Plain values."""
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
