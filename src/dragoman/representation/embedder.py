"""`Embedder`: represent tokens, words or texts by vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
import torch
from jaxtyping import Float, Int64

from dragoman.data.batching import pad
from dragoman.errors import CorpusError, SettingsError
from dragoman.models.inference import inference
from dragoman.representation.loading import Reader, load_reader
from dragoman.representation.states import states_of_layers
from dragoman.representation.units import DEFAULT_BATCH_TOKENS, Pool, Unit
from dragoman.text.words import Words

Vectors = Float[np.ndarray, "N D"]
LayerVectors = Float[np.ndarray, "L N D"]


@dataclass(frozen=True)
class Embeddings:
    """Vectors of tokens, words or texts.

    Attributes:
        vectors: one vector for each of N tokens, words or texts, as float32.
        labels: the token, word or text that each vector represents.
        texts: index of the text to which it belongs.
    """

    vectors: Vectors
    labels: tuple[str, ...]
    texts: Int64[np.ndarray, " N"]

    def neighbours(self, number: int) -> list[list[tuple[int, float]]]:
        """Return for each vector the indices of the nearest other vectors and their cosines, nearest first.

        Args:
            number: number of neighbours of each vector.
        """
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        directions = self.vectors / np.maximum(lengths, 1e-12)
        nearest: list[list[tuple[int, float]]] = []
        for start in range(0, len(directions), _ROWS):
            # [R, D] x [D, N] -> [R, N]
            cosines = directions[start : start + _ROWS] @ directions.T
            rows = np.arange(len(cosines))
            cosines[rows, start + rows] = -np.inf
            order = np.argsort(-cosines, axis=1, kind="stable")[:, : min(number, len(directions) - 1)]
            nearest += [[(int(i), float(row[i])) for i in best] for row, best in zip(cosines, order, strict=True)]
        return nearest


# Rows of cosines that are in memory at the same time.
_ROWS = 512


class Embedder:
    """Represents tokens, words or texts by vectors: states of any layer of a model of any kind.

    A text that is longer than the texts (or windows of text) in training is read in parts of that length.

    Args:
        reader: the model and its vocabulary.
        batch_tokens: largest number of tokens in a batch, including padding.

    Example:
        >>> from dragoman import Embedder
        >>> embedder = Embedder.load("models/mine")
        >>> embeddings = embedder.embed(["Turn off the light.", "Open the window."], of="words")
        >>> embeddings.labels[:4]
        ('Turn', 'off', 'the', 'light.')
    """

    def __init__(self, reader: Reader, *, batch_tokens: int = DEFAULT_BATCH_TOKENS) -> None:
        self._reader = reader
        self._batch_tokens = batch_tokens

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto", batch_tokens: int = DEFAULT_BATCH_TOKENS) -> Self:
        """Load the model of a model directory: an encoder of texts, a language model, or the encoder of a translator.

        Args:
            directory: the model directory.
            device: "auto" (a GPU if there is one), "cpu", "cuda" or "cuda:N".
            batch_tokens: largest number of tokens in a batch, including padding.

        Raises:
            ModelError: it is not a model directory, or is damaged.
            SettingsError: the device is not available, or batch_tokens is less than 1.
        """
        if batch_tokens < 1:
            raise SettingsError(f"batch_tokens must be at least 1, not {batch_tokens}")
        return cls(load_reader(Path(directory), device), batch_tokens=batch_tokens)

    def embed(self, texts: Sequence[str], *, of: Unit = "texts", layer: int = -1, pool: Pool = "mean") -> Embeddings:
        """Return the vectors of texts, or of their tokens or words.

        Args:
            texts: the texts.
            of: "tokens", "words" (separated by white space) or "texts".
            layer: 0 for the embeddings, 1 for the states after the first layer, and so on; -1 for the last layer.
            pool: vector of a word or a text: the "mean" of the vectors of its tokens, or the vector of the "first".
                The first token of a text is BOS in an encoder of texts, which corresponds to BERT's [CLS].

        Raises:
            CorpusError: there are no texts, or they have no tokens.
            SettingsError: the model has no such layer, or it is a language model, in which the first token of a text is
                the same for all texts.
        """
        [embeddings] = self._embed(texts, of, pool, layer)
        return embeddings

    def embed_layers(self, texts: Sequence[str], *, of: Unit = "texts", pool: Pool = "mean") -> list[Embeddings]:
        """Return the vectors of every layer, from the embeddings to the last one; the texts are read once.

        Args:
            texts: the texts.
            of: see `embed`.
            pool: see `embed`.

        Raises:
            CorpusError: there are no texts, or they have no tokens.
            SettingsError: as `embed`, apart from the layer.

        Example:
            >>> from dragoman import Embedder
            >>> embedder = Embedder.load("models/mine")
            >>> layers = embedder.embed_layers(["Turn off the light."], of="words")
            >>> layers[0].labels == layers[-1].labels
            True
        """
        return self._embed(texts, of, pool, None)

    def _embed(self, texts: Sequence[str], of: Unit, pool: Pool, layer: int | None) -> list[Embeddings]:
        """Return the vectors of one layer, or of all if `layer` is None; L is their number in annotations."""
        if not texts:
            raise CorpusError("give at least one text")
        if of == "texts" and pool == "first" and self._reader.kind == "language":
            raise SettingsError(
                "the first token of a text has the same vector in all texts of a language model: use the mean"
            )
        rows = self._reader.encode(texts)
        parts = [self._parts(row) for row in rows]
        states = iter(self._states([part for row in parts for part in row], layer))
        vectors: list[LayerVectors] = []
        labels: list[str] = []
        numbers: list[int] = []
        for number, (text, row, row_parts) in enumerate(zip(texts, rows, parts, strict=True)):
            first, inner = self._joined([next(states) for _ in row_parts])
            if of == "texts":
                # [L, D] or [L, T, D] -> [L, 1, D]
                vectors.append(first[:, None] if pool == "first" or not row else inner.mean(axis=1, keepdims=True))
                names = [text]
            elif not row:
                continue
            elif of == "tokens":
                vectors.append(inner)
                names = self._reader.texts(row)
            else:
                words = Words.from_tokens(self._reader.texts(row))
                vectors.append(words.mean(inner, axis=1) if pool == "mean" else inner[:, list(words.starts)])
                names = [word.strip() for word in words.texts]
            labels += names
            numbers += [number] * len(names)
        if not vectors:
            raise CorpusError("the texts are empty: they have no tokens or words")
        return [
            Embeddings(of_layer, tuple(labels), np.array(numbers))
            for of_layer in np.concatenate(vectors, axis=1).astype(np.float32)
        ]

    def _parts(self, row: list[int]) -> list[list[int]]:
        """Return the parts of a text that are read together, at least one, each with its special symbols."""
        before, after = self._reader.before, self._reader.after
        size = max(1, self._reader.context - len(before) - len(after))
        return [[*before, *row[start : start + size], *after] for start in range(0, max(len(row), 1), size)]

    def _joined(self, states: list[LayerVectors]) -> tuple[Float[np.ndarray, "L D"], LayerVectors]:
        """Return the states of the first position of a text, and those of its tokens."""
        begin, end = len(self._reader.before), len(self._reader.after)
        inner = [part[:, begin : part.shape[1] - end] for part in states]
        return states[0][:, 0], np.concatenate(inner, axis=1)

    def _states(self, rows: list[list[int]], layer: int | None) -> list[LayerVectors]:
        """Return the states of each row, computed in batches of similar lengths."""
        states: dict[int, LayerVectors] = {}
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        start = 0
        with inference([self._reader.model]):
            while start < len(order):
                end = start + 1
                while end < len(order) and (end + 1 - start) * len(rows[order[end]]) <= self._batch_tokens:
                    end += 1
                batch = order[start:end]
                for index, part in zip(batch, self._batch_states([rows[i] for i in batch], layer), strict=True):
                    states[index] = part
                start = end
        return [states[index] for index in range(len(rows))]

    def _batch_states(self, rows: list[list[int]], layer: int | None) -> list[LayerVectors]:
        tokens, mask = pad(rows)
        device = self._reader.device
        layers = states_of_layers(self._reader.model, tokens.to(device), mask.to(device))
        if layer is not None:
            if not -len(layers) <= layer < len(layers):
                raise SettingsError(
                    f"the model has the layers 0 to {len(layers) - 1} (or -1 for the last), not {layer}"
                )
            layers = (layers[layer],)
        # L x [B, T, D] -> [L, B, T, D]
        states = torch.stack(layers).float().cpu().numpy()
        return [states[:, index, : len(row)] for index, row in enumerate(rows)]
