"""Batches of pairs of similar lengths, in an order that depends only on the seed and the epoch.

An epoch is a random permutation of the pairs, divided into windows. The pairs of a window are sorted by length and
divided into batches of at most a given number of padded tokens; then the batches of the window are shuffled. So there
is little padding, the order is random, and three numbers (`Cursor`) are enough to resume anywhere in it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from dragoman.errors import CorpusError, SettingsError
from dragoman.text.subwords import BOS, EOS, PAD

Ids = Sequence[int] | npt.NDArray[np.integer[Any]]
Lengths = npt.NDArray[np.integer[Any]]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class BatchingConfig:
    """Settings of batching.

    Attributes:
        batch_tokens: maximum number of padded tokens in a batch: its rows times the length of its longest source or
            target, including the end of the sentence. A pair that is longer than this is a batch of its own.
        window: number of pairs sorted together. A larger window gives less padding and less random batches.
    """

    batch_tokens: int = 4096
    window: int = 65_536

    def __post_init__(self) -> None:
        if self.batch_tokens < 1 or self.window < 1:
            raise SettingsError("batch_tokens and window must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """Place in the stream of batches at which to resume: epoch, window in it and batch in that, all from 0."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs as padded tensors.

    B is the number of pairs; S and T are the largest lengths of source and target, including one special symbol.

    Attributes:
        source: source ids, EOS, then PAD.
        source_mask: True for tokens, False for padding.
        target_in: BOS, target ids, then PAD: the input of the decoder.
        target_out: target ids, EOS, then PAD: the tokens to predict.
        target_mask: True for tokens, False for padding.
        target_tokens: number of True values in `target_mask`, available without waiting for the device.
    """

    source: Int64[Tensor, "B S"]
    source_mask: Bool[Tensor, "B S"]
    target_in: Int64[Tensor, "B T"]
    target_out: Int64[Tensor, "B T"]
    target_mask: Bool[Tensor, "B T"]
    target_tokens: int

    def to(self, device: torch.device | str) -> "Batch":
        """Return the batch on `device`; the copy from pinned memory to a GPU is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
        return self._each(Tensor.pin_memory)

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        return Batch(
            source=change(self.source),
            source_mask=change(self.source_mask),
            target_in=change(self.target_in),
            target_out=change(self.target_out),
            target_mask=change(self.target_mask),
            target_tokens=self.target_tokens,
        )


def collate(sources: Sequence[Ids], targets: Sequence[Ids]) -> Batch:
    """Return a batch of the given rows of ids, which contain no special symbols."""
    assert len(sources) == len(targets) > 0
    source, source_mask = _pad_with_end(sources)
    target_out, target_mask = _pad_with_end(targets)
    # [B, T]: target_out shifted right by one position, with padding in place of EOS.
    target_in = torch.full_like(target_out, PAD)
    target_in[:, 0] = BOS
    target_in[:, 1:] = target_out[:, :-1].masked_fill(~target_mask[:, 1:], PAD)
    return Batch(
        source=source,
        source_mask=source_mask,
        target_in=target_in,
        target_out=target_out,
        target_mask=target_mask,
        target_tokens=sum(len(row) + 1 for row in targets),
    )


def pad(rows: Sequence[Ids]) -> tuple[Int64[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Return rows of ids, with their special symbols, as a batch, and the mask of its tokens; padding is at the end."""
    lengths = np.array([len(row) for row in rows])
    padded = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
    # [1, L] < [B, 1] -> [B, L]
    mask = np.arange(padded.shape[1])[None, :] < lengths[:, None]
    return torch.from_numpy(padded), torch.from_numpy(mask)


def _pad_with_end(rows: Sequence[Ids]) -> tuple[Int64[Tensor, "B L"], Bool[Tensor, "B L"]]:
    """Return the rows, each followed by EOS and padding, and the mask of their tokens."""
    return pad([[*row, EOS] for row in rows])


def batches(
    source_lengths: Lengths,
    target_lengths: Lengths,
    config: BatchingConfig,
    seed: int,
    cursor: Cursor | None = None,
) -> Iterator[tuple[Cursor, Indices]]:
    """Yield batches of pairs without end; each epoch contains every pair once.

    Starting takes the time to permute one epoch, whatever the cursor.

    Args:
        source_lengths: number of subwords of each source [N], without special symbols.
        target_lengths: number of subwords of each target [N], without special symbols.
        config: settings of batching.
        seed: seed of the order.
        cursor: where to start; None for the beginning.

    Yields:
        The cursor of the next batch, to save for resuming after this one, and the indices [B] of this batch's pairs.

    Raises:
        CorpusError: if there are no pairs, or the cursor belongs to another corpus or other settings.
    """
    count = len(source_lengths)
    assert count == len(target_lengths) < 2**32
    if count == 0:
        raise CorpusError("there are no pairs to train on")
    windows = -(-count // config.window)
    following = cursor or Cursor()
    while True:
        if not 0 <= following.window < windows:
            raise wrong_cursor(following)
        permutation = np.arange(count, dtype=np.uint32)
        generator(seed, following.epoch).shuffle(permutation)
        for window in range(following.window, windows):
            pairs = permutation[window * config.window : (window + 1) * config.window]
            split = _split(pairs, source_lengths, target_lengths, config.batch_tokens)
            order = generator(seed, following.epoch, window).permutation(len(split))
            if not 0 <= following.batch < len(split):
                raise wrong_cursor(following)
            for batch in range(following.batch, len(split)):
                if batch + 1 < len(split):
                    following = Cursor(epoch=following.epoch, window=window, batch=batch + 1)
                elif window + 1 < windows:
                    following = Cursor(epoch=following.epoch, window=window + 1)
                else:
                    following = Cursor(epoch=following.epoch + 1)
                yield following, split[order[batch]]


def sorted_batches(source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int) -> list[Indices]:
    """Return batches of all pairs, sorted by length: for validation, where the order has no effect."""
    if len(source_lengths) == 0:
        return []
    return _split(np.arange(len(source_lengths)), source_lengths, target_lengths, batch_tokens)


def _split(
    pairs: npt.NDArray[np.integer[Any]],
    source_lengths: Lengths,
    target_lengths: Lengths,
    batch_tokens: int,
) -> list[Indices]:
    """Sort pairs, given by their indices, by length, and split them into batches of at most `batch_tokens`."""
    source, target = source_lengths[pairs], target_lengths[pairs]
    widths = np.maximum(source, target).astype(np.int64) + 1
    # The number of pairs in a batch depends on the width. Pairs of equal width are sorted by their shorter side.
    order = np.lexsort((target.astype(np.int64) - source, widths))
    starts = [0]
    for end, width in enumerate(widths[order].tolist()):
        if end > starts[-1] and (end + 1 - starts[-1]) * width > batch_tokens:
            starts.append(end)
    return np.split(pairs[order].astype(np.int64), starts[1:])


def generator(seed: int, *key: int) -> np.random.Generator:
    """Return the random number generator of a seed and a key, such as the epoch."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def wrong_cursor(cursor: Cursor) -> CorpusError:
    """Return the error for a cursor that is outside the corpus."""
    return CorpusError(
        f"{cursor} is outside this corpus; it was saved with another corpus, or with other settings of the batches"
    )
