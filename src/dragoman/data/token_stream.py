"""Prepared text: the token ids of all documents as one memory-mapped stream, and windows of it.

The directory contains three files:

    tokens.npy   uint16 or int32: the documents one after the other, each as BOS, its tokens, EOS
    starts.npy   int64: index of the BOS of each document
    meta.json    counts, the vocabulary's hash, the version of this layout
"""

import json
import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from dragoman.data.flat_array import FlatArrayWriter, map_flat_array
from dragoman.data.texts import BLOCK, Part
from dragoman.errors import CorpusError, StorageError
from dragoman.files import read_json_object, replaced_directory
from dragoman.text.subwords import BOS, EOS, PAD
from dragoman.text.vocabulary import Vocabulary

VERSION = 1
# Largest number of texts encoded at a time; they have about `BLOCK` characters at most.
ENCODED_AT_ONCE = 8192

Ids = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True)
class StreamMeta:
    """Content of meta.json.

    Attributes:
        tokens: number of tokens, including BOS and EOS of each document.
        documents: number of documents.
        characters: number of characters of the text.
        bytes: number of bytes of the text in UTF-8.
        vocabulary_hash: `Vocabulary.vocabulary_hash` of the vocabulary that encoded the text.
        version: version of the layout.
    """

    tokens: int
    documents: int
    characters: int
    bytes: int
    vocabulary_hash: str
    version: int = VERSION


class TokenStream:
    """Token ids of all documents, one after the other.

    Attributes:
        meta: content of meta.json.
        tokens: the ids: of each document BOS, its tokens, EOS.
        starts: index of the BOS of each document.
    """

    def __init__(self, meta: StreamMeta, tokens: Ids, starts: npt.NDArray[np.int64], maps: tuple[mmap.mmap, ...]):
        """Called by `open`; `maps` are the memory maps that contain the arrays."""
        self.meta = meta
        self.tokens = tokens
        self.starts = starts
        self._maps = maps

    def __len__(self) -> int:
        """Return the number of tokens."""
        return len(self.tokens)

    def document(self, index: int) -> Ids:
        """Return the ids of one document, from BOS to EOS, as a view of the file."""
        if not 0 <= index < len(self.starts):
            raise IndexError(index)
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.tokens)
        return self.tokens[self.starts[index] : end]

    def release(self) -> None:
        """Release the memory of the pages read so far, if the system supports it; views remain valid."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Memory-map the files that `prepare_stream` wrote, without reading the ids.

        Raises:
            StorageError: if the directory is not a prepared text, or is damaged.
        """
        try:
            meta = StreamMeta(
                **read_json_object(directory / "meta.json", missing="it has no meta.json", error=StorageError)
            )
            if meta.version != VERSION:
                raise ValueError(f"expected layout version {VERSION}, found {meta.version}")
            tokens, large = map_flat_array(directory / "tokens.npy", (np.uint16, np.int32))
            starts, small = map_flat_array(directory / "starts.npy", (np.int64,))
            if (len(tokens), len(starts)) != (meta.tokens, meta.documents) or not len(starts):
                raise ValueError("the files have different numbers of tokens or documents")
            # A document has at least BOS, one token and EOS.
            if starts[0] != 0 or (np.diff(starts, append=len(tokens)) < 3).any() or tokens[-1] != EOS:
                raise ValueError("its documents overlap or are empty")
            return cls(meta, tokens, starts, (large, small))
        except (OSError, ValueError, TypeError) as error:
            raise StorageError(f"{directory}: not a prepared text ({error}); delete it and prepare it again") from error


def prepare_stream(parts: Iterable[Part], vocabulary: Vocabulary, directory: Path, *, workers: int = 1) -> TokenStream:
    """Encode documents and write them as a stream, in one pass and in memory that does not depend on their size.

    The directory is written atomically and replaces an existing one. An error raised by the iterator `parts` is not
    caught and leaves the directory unchanged.

    Args:
        parts: the documents in parts, read once; none is empty.
        vocabulary: the vocabulary.
        directory: where to write.
        workers: number of threads that encode; it does not change the result.

    Raises:
        CorpusError: if there are no documents.
    """
    with replaced_directory(directory) as new:
        dtype = np.dtype(np.uint16 if vocabulary.size <= 2**16 else np.int32)
        characters, size = 0, 0
        with (
            FlatArrayWriter(new / "tokens.npy", dtype) as tokens,
            FlatArrayWriter(new / "starts.npy", np.int64) as starts,
        ):
            begins = True
            for chunk in _chunks(_final_texts(parts, vocabulary)):
                rows = vocabulary.encode([text for text, _ in chunk], workers)
                written: list[list[int]] = []
                beginnings: list[int] = []
                count = tokens.count
                for (text, ends), row in zip(chunk, rows, strict=True):
                    characters += len(text)
                    size += len(text.encode())
                    if begins:
                        beginnings.append(count)
                        written.append([BOS])
                    written.append(row)
                    if ends:
                        written.append([EOS])
                    count += begins + len(row) + ends
                    begins = ends
                tokens.write(np.fromiter(chain.from_iterable(written), dtype, count - tokens.count))
                starts.write(np.array(beginnings, dtype=np.int64))
        assert begins
        if not starts.count:
            raise CorpusError("there is no text to prepare")
        meta = StreamMeta(
            tokens=tokens.count,
            documents=starts.count,
            characters=characters,
            bytes=size,
            vocabulary_hash=vocabulary.vocabulary_hash,
        )
        (new / "meta.json").write_text(json.dumps(asdict(meta), indent=2) + "\n")
    return TokenStream.open(directory)


@dataclass(frozen=True, kw_only=True)
class WindowBatch:
    """Windows of a stream of tokens: B rows of T consecutive tokens, and the token after each.

    The token after EOS is the BOS of the next document, which nothing predicts: there, `tokens_out` is PAD and
    `target_mask` is False.

    Attributes:
        tokens_in: the tokens.
        tokens_out: the token after each, to be predicted; PAD where `target_mask` is False.
        documents: index of the document of each token, counted within the row from 0; None if every row has tokens of
            one document only.
        target_mask: True for the tokens to be predicted; None if these are all.
        tokens: number of tokens to be predicted, available without waiting for the device.
    """

    tokens_in: Int64[Tensor, "B T"]
    tokens_out: Int64[Tensor, "B T"]
    documents: Int64[Tensor, "B T"] | None
    target_mask: Bool[Tensor, "B T"] | None
    tokens: int

    def to(self, device: torch.device | str) -> "WindowBatch":
        """Return the batch on `device`; the copy from pinned memory to a GPU is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "WindowBatch":
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
        return self._each(Tensor.pin_memory)

    def rows(self, start: int, end: int) -> "WindowBatch":
        """Return the windows from `start` to before `end`; this waits for the device if there is a target mask."""
        part = self._each(lambda tensor: tensor[start:end])
        mask = part.target_mask
        return replace(part, tokens=part.tokens_out.numel() if mask is None else int(mask.sum()))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "WindowBatch":
        return replace(
            self,
            tokens_in=change(self.tokens_in),
            tokens_out=change(self.tokens_out),
            documents=None if self.documents is None else change(self.documents),
            target_mask=None if self.target_mask is None else change(self.target_mask),
        )


def windows_at(stream: TokenStream, starts: npt.NDArray[np.int64], length: int) -> WindowBatch:
    """Return the windows of `length` tokens that begin at the given indices [B] of a stream."""
    # [N] -> [N - T, T + 1], a view -> [B, T + 1], a copy
    rows = np.lib.stride_tricks.sliding_window_view(stream.tokens, length + 1)[starts].astype(np.int64)
    return batch_of_rows(rows, rows[:, 1:] != BOS)


def batch_of_rows(rows: Int64[np.ndarray, "B T1"], predicted: Bool[np.ndarray, "B T"]) -> WindowBatch:
    """Return the batch of rows of T + 1 tokens, of which the last T are predicted where `predicted` is True."""
    tokens_in, tokens_out = rows[:, :-1], rows[:, 1:]
    # [B, T]: number of documents that have begun after the first token of the row
    documents = np.zeros_like(tokens_in)
    documents[:, 1:] = (tokens_in[:, 1:] == BOS).cumsum(axis=1)
    tokens = int(predicted.sum())
    complete = tokens == predicted.size
    return WindowBatch(
        tokens_in=torch.from_numpy(np.ascontiguousarray(tokens_in)),
        tokens_out=torch.from_numpy(np.where(predicted, tokens_out, PAD)),
        documents=torch.from_numpy(documents) if documents.any() else None,
        target_mask=None if complete else torch.from_numpy(predicted),
        tokens=tokens,
    )


def _final_texts(parts: Iterable[Part], vocabulary: Vocabulary) -> Iterator[Part]:
    """Yield the documents in parts whose encodings, one after the other, are those of the documents."""
    rest = ""
    for text, ends in parts:
        rest += text
        cut = len(rest) if ends else vocabulary.final(rest)
        yield Part(rest[:cut], ends)
        rest = rest[cut:]


def _chunks(parts: Iterable[Part]) -> Iterator[list[Part]]:
    """Yield lists of parts, limited in number and size."""
    chunk: list[Part] = []
    size = 0
    for part in parts:
        chunk.append(part)
        size += len(part.text)
        if len(chunk) == ENCODED_AT_ONCE or size >= BLOCK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
