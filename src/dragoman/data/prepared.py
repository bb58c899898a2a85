"""Prepared corpora: the subword ids of a corpus on disk, memory-mapped so that training does not load all of them.

The directory contains three files in standard formats:

    subwords.arrow   Arrow IPC; columns source and target: lists of ids; BLOCK pairs per record batch
    lengths.arrow    Arrow IPC; columns source and target: int32; one record batch
    meta.json        counts, the tokenizer's hash, the version of this layout
"""

import json
import mmap
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
from dragoman.files import read_json_object, replaced_directory
from dragoman.text.tokenizer import Tokenizer

VERSION = 1
# Number of pairs in each record batch except the last, so that the record batch of a pair is found by division.
BLOCK = 16_384
# Number of pairs encoded at a time.
ENCODED_AT_ONCE = 2048

Ids = npt.NDArray[np.integer[Any]]
IdPair = tuple[list[int], list[int]]


@dataclass(frozen=True, kw_only=True)
class PreparedMeta:
    """Content of meta.json.

    Attributes:
        pairs: number of pairs.
        dropped: number of pairs left out because a side was longer than `max_tokens`.
        max_tokens: maximum number of subwords in a source or target, without special symbols.
        source_tokens: number of subwords of all sources, without special symbols.
        target_tokens: number of subwords of all targets, without special symbols.
        vocabulary_hash: `Tokenizer.vocabulary_hash` of the tokenizer that encoded the corpus.
        version: version of the layout.
    """

    pairs: int
    dropped: int
    max_tokens: int
    source_tokens: int
    target_tokens: int
    vocabulary_hash: str
    version: int = VERSION


class PreparedCorpus:
    """Subword ids of a corpus, in the order of its pairs.

    Attributes:
        meta: content of meta.json.
        source_lengths: number of subwords of each source, without special symbols.
        target_lengths: number of subwords of each target, without special symbols.
    """

    def __init__(
        self, meta: PreparedMeta, lengths: pa.RecordBatch, blocks: list[pa.RecordBatch], maps: tuple[mmap.mmap, ...]
    ) -> None:
        """Called by `open` and `prepare`; `maps` are the memory maps that contain the lengths and the blocks."""
        self.meta = meta
        self.source_lengths: npt.NDArray[np.int32] = lengths["source"].to_numpy()
        self.target_lengths: npt.NDArray[np.int32] = lengths["target"].to_numpy()
        self._source = [_arrays(block["source"]) for block in blocks]
        self._target = [_arrays(block["target"]) for block in blocks]
        self._maps = maps

    def release(self) -> None:
        """Release the memory of the pages read so far, if the system supports it.

        Rows returned before remain valid: their pages are read again when they are used.
        """
        if hasattr(mmap, "MADV_DONTNEED"):
            for pages in self._maps:
                pages.madvise(mmap.MADV_DONTNEED)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.source_lengths)

    def source(self, index: int) -> Ids:
        """Return the ids of one source text as a view of the file."""
        return _row(self._source, index)

    def target(self, index: int) -> Ids:
        """Return the ids of one target text as a view of the file."""
        return _row(self._target, index)

    @classmethod
    def open(cls, directory: Path) -> Self:
        """Memory-map the files that `prepare` wrote, without reading the ids.

        Raises:
            StorageError: if the directory is not a prepared corpus, or is damaged.
        """
        try:
            meta = PreparedMeta(
                **read_json_object(directory / "meta.json", missing="it has no meta.json", error=StorageError)
            )
            if meta.version != VERSION:
                raise ValueError(f"expected layout version {VERSION}, found {meta.version}")
            [lengths], small = _map(directory / "lengths.arrow")
            blocks, large = _map(directory / "subwords.arrow")
            if {len(lengths), sum(map(len, blocks))} != {meta.pairs}:
                raise ValueError("the files have different numbers of pairs")
            if any(len(block) != BLOCK for block in blocks[:-1]):
                raise ValueError("its record batches have other sizes")
            return cls(meta, lengths, blocks, (small, large))
        except (OSError, ValueError, TypeError, KeyError, pa.ArrowException) as error:
            raise StorageError(
                f"{directory}: not a prepared corpus ({error}); delete it and prepare it again"
            ) from error


def prepare(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    directory: Path,
    *,
    max_tokens: int,
    workers: int = 1,
) -> PreparedCorpus:
    """Encode pairs and write a prepared corpus, in one pass and in memory that does not depend on their number.

    The directory is written atomically and replaces an existing one. An error raised by the iterator `pairs` is not
    caught and leaves the directory unchanged.

    Args:
        pairs: the pairs, read once.
        tokenizer: the tokenizer.
        directory: where to write.
        max_tokens: pairs with more subwords than this on a side are dropped and counted.
        workers: number of threads that encode (sentencepiece releases Python's global lock); it does not change the
            result.
    """
    with replaced_directory(directory) as new:
        _write(pairs, tokenizer, new, max_tokens, workers)
    return PreparedCorpus.open(directory)


def _write(pairs: Iterable[Pair], tokenizer: Tokenizer, directory: Path, max_tokens: int, workers: int) -> None:
    fits = max(tokenizer.source_size, tokenizer.target_size) <= 2**16
    ids = pa.list_(pa.uint16() if fits else pa.int32())
    schema = pa.schema([("source", ids), ("target", ids)])
    lengths: list[npt.NDArray[np.int32]] = [np.empty((0, 2), dtype=np.int32)]
    read = 0
    block = _Block.empty(np.dtype(np.uint16 if fits else np.int32))
    # Opened by Python, because pyarrow does not accept a path that is not valid UTF-8.
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
    """Yield the ids of the pairs in chunks of `ENCODED_AT_ONCE`."""
    remaining = iter(pairs)
    while chunk := list(islice(remaining, ENCODED_AT_ONCE)):
        source = tokenizer.encode_source([pair.source for pair in chunk], workers)
        target = tokenizer.encode_target([pair.target for pair in chunk], workers)
        yield list(zip(source, target, strict=True))


@dataclass(frozen=True)
class _Block:
    """Rows to be written. They are arrays because a list takes 40 bytes per id, which Python returns late.

    Attributes:
        values: the concatenated rows of source and of target.
        lengths: lengths of the rows of source and target [rows, 2].
    """

    values: tuple[Ids, Ids]
    lengths: npt.NDArray[np.int32]

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
    """Return the record batches of a file, and the memory map that contains them."""
    with path.open("rb") as file:
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    reader = pa.ipc.open_file(pa.py_buffer(pages))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)], pages


def _arrays(column: pa.ListArray) -> tuple[npt.NDArray[np.int32], Ids]:
    """Return offsets [rows + 1] and values of a column of lists, as views."""
    return column.offsets.to_numpy(), column.values.to_numpy()


def _row(blocks: list[tuple[npt.NDArray[np.int32], Ids]], index: int) -> Ids:
    if index < 0:
        raise IndexError(index)
    offsets, values = blocks[index // BLOCK]
    row = index % BLOCK
    return values[offsets[row] : offsets[row + 1]]
