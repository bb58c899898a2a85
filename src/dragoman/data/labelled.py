"""Texts with labels: readers, token ids with targets, and batches.

An example is a pair of lines: a text and its label, or words and their tags, both separated by spaces.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from dragoman.data.batching import BatchingConfig, Cursor, batches, sorted_batches
from dragoman.data.readers import Pair, read_numbered
from dragoman.errors import CorpusError, StorageError
from dragoman.files import replaced_directory
from dragoman.text.lines import clean_line
from dragoman.text.subwords import BOS, EOS, PAD
from dragoman.text.vocabulary import Vocabulary

# Target of the tokens for which nothing is predicted.
NOTHING = -1


class Row(NamedTuple):
    """Tokens of a text, or of a part of it, with targets.

    Attributes:
        tokens: BOS, token ids, EOS.
        targets: the index of a label, or `NOTHING`, for each token.
        positions: index of the token at which each label is predicted: the first one for a label of the whole text.
    """

    tokens: list[int]
    targets: list[int]
    positions: list[int]


def read_tagged(path: Path) -> Iterator[Pair]:
    """Yield the sentences of a file with one word, a tab and its tag on each line, and empty lines between sentences.

    Raises:
        CorpusError: for a line of another form; the message names file and line.
    """
    words: list[str] = []
    tags: list[str] = []
    for number, text in read_numbered(str(path)):
        if text.strip():
            columns = text.split("\t")
            if len(columns) != 2 or any(len(column.split()) != 1 for column in columns):
                raise CorpusError(f"{path}:{number}: expected a word, a tab and its tag, without spaces")
            words.append(columns[0].strip())
            tags.append(columns[1].strip())
        elif words:
            yield Pair(" ".join(words), " ".join(tags))
            words, tags = [], []
    if words:
        yield Pair(" ".join(words), " ".join(tags))


def label_rows(pairs: Sequence[Pair], vocabulary: Vocabulary, labels: Sequence[str], context: int) -> list[list[Row]]:
    """Return the row of each text with its label; the end of a text that is too long is left out.

    Args:
        pairs: texts and labels.
        vocabulary: the vocabulary.
        labels: all labels; the target of another label is `NOTHING`.
        context: largest number of tokens of a row.
    """
    index = {label: i for i, label in enumerate(labels)}
    rows = []
    for ids, pair in zip(vocabulary.encode([clean_line(pair.source) for pair in pairs]), pairs, strict=True):
        tokens = [BOS, *ids[: context - 2], EOS]
        rows.append([Row(tokens, [index.get(pair.target, NOTHING), *[NOTHING] * (len(tokens) - 1)], [0])])
    return rows


def tag_rows(pairs: Sequence[Pair], vocabulary: Vocabulary, labels: Sequence[str], context: int) -> list[list[Row]]:
    """Return the rows of each sentence with its tags, which are the targets of the first token of each word.

    A sentence that is too long is divided between words; a word that is too long loses its end.

    Args:
        pairs: words and tags, each separated by spaces.
        vocabulary: the vocabulary.
        labels: all tags; the target of another tag is `NOTHING`.
        context: largest number of tokens of a row.
    """
    index = {label: i for i, label in enumerate(labels)}
    sizes = [len(text) for text in vocabulary.token_bytes]
    rows = []
    for ids, pair in zip(vocabulary.encode([pair.source for pair in pairs]), pairs, strict=True):
        words, tags = pair.source.split(), pair.target.split()
        assert len(words) == len(tags)
        firsts = first_tokens(words, [sizes[token] for token in ids])
        rows.append(list(_divided(ids, firsts, [index.get(tag, NOTHING) for tag in tags], context - 2)))
    return rows


def first_tokens(words: Sequence[str], sizes: Sequence[int]) -> list[int]:
    """Return the index of the token that contains the first byte of each word.

    Args:
        words: words, which are separated by one space each in the text.
        sizes: number of bytes of each token of the text.
    """
    ends = np.cumsum(sizes)
    lengths = np.array([len(word.encode()) + 1 for word in words])
    starts = np.concatenate(([0], lengths.cumsum()[:-1]))
    return np.searchsorted(ends, starts, side="right").tolist()


def _divided(ids: list[int], firsts: list[int], targets: list[int], most: int) -> Iterator[Row]:
    """Yield rows of at most `most` tokens of whole words, as far as possible."""
    start = 0
    while start < len(firsts):
        ends = [*firsts[start + 1 :], len(ids)]
        # Words that share a token cannot be divided.
        fits = [i for i, end in enumerate(ends, start + 1) if end - firsts[start] <= most]
        stop = fits[-1] if fits else start + 1
        end = firsts[stop] if stop < len(firsts) else len(ids)
        tokens = [BOS, *ids[firsts[start] : min(end, firsts[start] + most)], EOS]
        # A word that begins after the end of the row has the last token.
        positions = [min(1 + first - firsts[start], len(tokens) - 2) for first in firsts[start:stop]]
        row = Row(tokens, [NOTHING] * len(tokens), positions)
        for position, target in zip(positions, targets[start:stop], strict=True):
            row.targets[position] = target
        yield row
        start = stop


@dataclass(frozen=True, kw_only=True)
class LabelledBatch:
    """Rows as padded tensors.

    Attributes:
        tokens: BOS, token ids, EOS, then PAD.
        mask: True for tokens, False for padding.
        targets: index of a label, or `NOTHING`.
        predicted: number of targets that are labels.
    """

    tokens: Int64[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    targets: Int64[Tensor, "B T"]
    predicted: int

    def to(self, device: torch.device | str) -> "LabelledBatch":
        """Return the batch on `device`; the copy from pinned memory to a GPU is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "LabelledBatch":
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
        return self._each(Tensor.pin_memory)

    def rows(self, start: int, end: int) -> "LabelledBatch":
        """Return the rows from `start` to before `end`; this waits for the device."""
        return self._each(lambda tensor: tensor[start:end], int((self.targets[start:end] != NOTHING).sum()))

    def _each(self, change: Callable[[Tensor], Tensor], predicted: int | None = None) -> "LabelledBatch":
        return LabelledBatch(
            tokens=change(self.tokens),
            mask=change(self.mask),
            targets=change(self.targets),
            predicted=self.predicted if predicted is None else predicted,
        )


def collate_rows(rows: Sequence[tuple[Sequence[int], Sequence[int]]]) -> LabelledBatch:
    """Return a batch of rows of tokens and targets."""
    lengths = np.array([len(tokens) for tokens, _ in rows])
    tokens = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    targets = np.full_like(tokens, NOTHING)
    for i, (row, row_targets) in enumerate(rows):
        tokens[i, : len(row)] = row
        targets[i, : len(row)] = row_targets
    # [1, T] < [B, 1] -> [B, T]
    mask = np.arange(tokens.shape[1])[None, :] < lengths[:, None]
    predicted = int((targets != NOTHING).sum())
    return LabelledBatch(
        tokens=torch.from_numpy(tokens),
        mask=torch.from_numpy(mask),
        targets=torch.from_numpy(targets),
        predicted=predicted,
    )


@dataclass(frozen=True)
class LabelledCorpus:
    """Rows with labels as arrays.

    Attributes:
        tokens: tokens of all rows, one row after the other.
        targets: targets of these tokens.
        starts: index of the first token of each row, and the number of tokens at the end.
    """

    tokens: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    starts: npt.NDArray[np.int64]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "LabelledCorpus":
        """Return the rows as arrays."""
        lengths = np.array([0, *(len(row.tokens) for row in rows)], dtype=np.int64)
        tokens = np.array([token for row in rows for token in row.tokens], dtype=np.int32)
        targets = np.array([target for row in rows for target in row.targets], dtype=np.int32)
        return cls(tokens, targets, lengths.cumsum())

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each row."""
        return np.diff(self.starts)

    def batch(self, rows: npt.NDArray[np.int64]) -> LabelledBatch:
        """Return a batch of the rows with these indices."""
        parts = [slice(self.starts[row], self.starts[row + 1]) for row in rows]
        return collate_rows([(self.tokens[part].tolist(), self.targets[part].tolist()) for part in parts])

    def save(self, directory: Path) -> None:
        """Write the arrays into a directory, which is replaced."""
        with replaced_directory(directory) as new:
            for name in ("tokens", "targets", "starts"):
                np.save(new / f"{name}.npy", getattr(self, name))

    @classmethod
    def open(cls, directory: Path) -> "LabelledCorpus":
        """Read the arrays that `save` wrote.

        Raises:
            StorageError: a file is missing or damaged.
        """
        try:
            arrays = [
                np.load(directory / f"{name}.npy", allow_pickle=False) for name in ("tokens", "targets", "starts")
            ]
            corpus = cls(*arrays)
            if any(array.ndim != 1 for array in arrays) or not (
                len(corpus.tokens) == len(corpus.targets) == corpus.starts[-1] and corpus.starts[0] == 0
            ):
                raise ValueError("its arrays have different lengths")
        except (OSError, ValueError, IndexError) as error:
            raise StorageError(f"{directory}: not a prepared corpus ({error}): use another --out") from error
        return corpus


@dataclass(frozen=True)
class LabelledStream:
    """Endless stream of batches of rows; its batches depend only on the seed and the cursor.

    Attributes:
        corpus: the rows.
        batch_tokens: largest number of tokens in a batch, including padding.
        seed: seed of the order.
    """

    corpus: LabelledCorpus
    batch_tokens: int
    seed: int

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[LabelledBatch, Cursor]]:
        """Yield each batch with the cursor after it."""
        config = BatchingConfig(batch_tokens=self.batch_tokens)
        lengths = self.corpus.lengths
        for following, rows in batches(lengths, lengths, config, self.seed, cursor):
            yield self.corpus.batch(rows), following

    def longest(self) -> LabelledBatch:
        """Return a batch of as many of the longest rows as fit into `batch_tokens`."""
        order = np.argsort(-self.corpus.lengths, kind="stable")
        rows = max(1, self.batch_tokens // (int(self.corpus.lengths.max()) + 1))
        return self.corpus.batch(order[:rows])


def batches_in_order(rows: Sequence[Row], batch_tokens: int) -> Iterator[tuple[list[int], LabelledBatch]]:
    """Yield batches of rows of similar lengths, each with the indices of its rows."""
    lengths = np.array([len(row.tokens) for row in rows])
    for indices in sorted_batches(lengths, lengths, batch_tokens):
        yield indices.tolist(), collate_rows([(rows[i].tokens, rows[i].targets) for i in indices])
