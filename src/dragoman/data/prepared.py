"""A corpus as subword ids on disk, memory-mapped: training reads it without holding it.

The directory has three files, all readable by other programs:

    subwords.arrow   Arrow IPC: columns source, target: lists of ids; BLOCK pairs to a record batch
    lengths.arrow    Arrow IPC: columns source, target: int32; one record batch
    meta.json        counts, the tokenizer's hash, the version of this layout
"""

import json
import mmap
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dragoman.data.readers import Pair
from dragoman.errors import StorageError
from dragoman.files import atomic_directory, read_json_object, temporary_beside
from dragoman.text.tokenizer import Tokenizer

VERSION = 1
# All record batches but the last have this many pairs, so that pair i is found by division.
BLOCK = 16_384
ENCODED_AT_ONCE = 2048

Ids = npt.NDArray[np.integer[Any]]
IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True, kw_only=True)
class PreparedMeta:
    """What meta.json says. Tokens are subwords, without special symbols."""

    pairs: int
    dropped: int
    max_tokens: int
    source_tokens: int
    target_tokens: int
    vocabulary_hash: str
    version: int = VERSION


class PreparedCorpus:
    """The ids of a corpus, in the order of its pairs."""

    def __init__(
        self, meta: PreparedMeta, lengths: pa.RecordBatch, blocks: list[pa.RecordBatch], maps: tuple[mmap.mmap, ...]
    ) -> None:
        """Made by `open` and `prepare`; `maps` are those that the lengths and the blocks lie in."""
        self.meta = meta
        self.source_lengths: npt.NDArray[np.int32] = lengths["source"].to_numpy()
        self.target_lengths: npt.NDArray[np.int32] = lengths["target"].to_numpy()
        self._source = [_arrays(block["source"]) for block in blocks]
        self._target = [_arrays(block["target"]) for block in blocks]
        self._maps = maps

    def release(self) -> None:
        """What was read so far no longer counts as this process's memory, where the system knows how.

        Rows given out before stay as they are: what is looked at again is read again.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.source_lengths)

    def source(self, index: int) -> Ids:
        """Ids of one source text: a view of the file."""
        return _row(self._source, index)

    def target(self, index: int) -> Ids:
        """Ids of one target text: a view of the file."""
        return _row(self._target, index)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Map what `prepare` wrote, reading none of the ids; StorageError when that is not there."""
        try:
            meta = PreparedMeta(
                **read_json_object(directory / "meta.json", missing="it has no meta.json", error=StorageError)
            )
            if meta.version != VERSION:
                raise ValueError(f"layout version {meta.version}, this program knows {VERSION}")
            [lengths], small = _map(directory / "lengths.arrow")
            blocks, large = _map(directory / "subwords.arrow")
            if {len(lengths), sum(map(len, blocks))} != {meta.pairs}:
                raise ValueError("the files have different numbers of pairs")
            if any(len(block) != BLOCK for block in blocks[:-1]):
                raise ValueError("its record batches have other sizes")
            return cls(meta, lengths, blocks, (small, large))
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise StorageError(
                f"{directory}: not a prepared corpus ({error}); delete it and prepare it anew"
            ) from error


def prepare(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    directory: Path,
    *,
    max_tokens: int,
    workers: int = 1,
) -> PreparedCorpus:
    """Encode `pairs` into `directory`, in one pass, in memory that does not grow with the texts.

    Pairs with more than `max_tokens` subwords on a side are left out and counted. `workers` threads
    encode (sentencepiece releases Python's lock); their number does not change the result. Nothing
    shows in `directory` before all is written; what was there is replaced. Errors of the reader
    behind `pairs` pass through and leave `directory` as it was.
    """
    directory.parent.mkdir(parents=True, exist_ok=True)
    former = temporary_beside(directory)
    with atomic_directory(directory) as new:
        _write(pairs, tokenizer, new, max_tokens, workers)
        if directory.exists():
            directory.rename(former)
    shutil.rmtree(former, ignore_errors=True)
    return PreparedCorpus.open(directory)


def _write(pairs: Iterable[Pair], tokenizer: Tokenizer, directory: Path, max_tokens: int, workers: int) -> None:
    fits = max(tokenizer.source_size, tokenizer.target_size) <= 2**16
    ids = pa.list_(pa.uint16() if fits else pa.int32())
    schema = pa.schema([("source", ids), ("target", ids)])
    lengths: list[npt.NDArray[np.int32]] = [np.empty((0, 2), dtype=np.int32)]
    read = 0
    block = _Block.empty(np.dtype(np.uint16 if fits else np.int32))
    # Opened here: pyarrow takes no path that is not UTF-8.
    with (directory / "subwords.arrow").open("wb") as file, pa.ipc.new_file(file, schema) as writer:

        def write(rows: int) -> None:
            nonlocal block
            full, block = block.split(rows)
            writer.write_batch(pa.record_batch(full.columns(ids), schema=schema))
            lengths.append(full.lengths)

        for encoded in _encoded(pairs, tokenizer, workers):
            short_enough = [pair for pair in encoded if max(map(len, pair)) <= max_tokens]
            read += len(encoded)
            block = block.extended(short_enough)
            while len(block) >= BLOCK:
                write(BLOCK)
        if len(block):
            write(len(block))

    table = np.concatenate(lengths)
    columns = [pa.array(column) for column in table.T]
    both = pa.record_batch(columns, names=["source", "target"])
    with (directory / "lengths.arrow").open("wb") as file, pa.ipc.new_file(file, both.schema) as writer:
        writer.write_batch(both)

    meta = PreparedMeta(
        pairs=len(table),
        dropped=read - len(table),
        max_tokens=max_tokens,
        source_tokens=int(table[:, 0].sum()),
        target_tokens=int(table[:, 1].sum()),
        vocabulary_hash=tokenizer.vocabulary_hash,
    )
    (directory / "meta.json").write_text(json.dumps(asdict(meta), indent=2) + "\n")


def _encoded(pairs: Iterable[Pair], tokenizer: Tokenizer, workers: int) -> Iterator[list[IdPair]]:
    remaining = iter(pairs)
    while chunk := list(islice(remaining, ENCODED_AT_ONCE)):
        source = tokenizer.encode_source([pair.source for pair in chunk], workers)
        target = tokenizer.encode_target([pair.target for pair in chunk], workers)
        yield list(zip(source, target, strict=True))


@dataclass(frozen=True)
class _Block:
    """Rows that wait to be written, as arrays: a list takes 40 bytes for an id, which Python is slow to give back."""

    values: tuple[Ids, Ids]  # of source and target, one row after another
    lengths: npt.NDArray[np.int32]  # [rows, 2]

    @classmethod
    def empty(cls, dtype: np.dtype[Any]) -> Self:
        return cls((np.empty(0, dtype), np.empty(0, dtype)), np.empty((0, 2), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.lengths)

    def extended(self, pairs: list[IdPair]) -> "_Block":
        new = np.array([[len(s), len(t)] for s, t in pairs], dtype=np.int32).reshape(-1, 2)
        source, target = (
            np.concatenate(
                (values, np.fromiter(chain.from_iterable(pair[side] for pair in pairs), values.dtype, int(count)))
            )
            for side, (values, count) in enumerate(zip(self.values, new.sum(axis=0), strict=True))
        )
        return _Block((source, target), np.concatenate((self.lengths, new)))

    def split(self, rows: int) -> "tuple[_Block, _Block]":
        source, target = self.lengths[:rows].sum(axis=0)
        first = _Block((self.values[0][:source], self.values[1][:target]), self.lengths[:rows])
        return first, _Block((self.values[0][source:], self.values[1][target:]), self.lengths[rows:])

    def columns(self, ids: pa.ListType) -> list[pa.ListArray]:
        offsets = np.concatenate((np.zeros((1, 2), dtype=np.int32), self.lengths.cumsum(axis=0, dtype=np.int32)))
        return [
            pa.ListArray.from_arrays(pa.array(offsets[:, side]), pa.array(values), type=ids)
            for side, values in enumerate(self.values)
        ]


def _map(path: Path) -> tuple[list[pa.RecordBatch], mmap.mmap]:
    """The record batches of a file, and the pages that they lie in."""
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = pa.ipc.open_file(pa.py_buffer(pages))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)], pages


def _arrays(column: pa.ListArray) -> tuple[npt.NDArray[np.int32], Ids]:
    """Offsets [rows + 1] and values of a column of lists, as views."""
    return column.offsets.to_numpy(), column.values.to_numpy()


def _row(blocks: list[tuple[npt.NDArray[np.int32], Ids]], index: int) -> Ids:
    if index < 0:
        raise IndexError(index)
    offsets, values = blocks[index // BLOCK]
    row = index % BLOCK
    return values[offsets[row] : offsets[row + 1]]
