"""Batches of similar lengths, in an order that depends on nothing but (seed, epoch).

An epoch is a random permutation of the pairs, cut into windows. Inside a window the pairs are sorted
by length and cut into batches by a budget of padded tokens, and the batches are shuffled. So padding
is small, the order is random, and any place in it is found again from three numbers.
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
    """How pairs are put together.

    Attributes:
        batch_tokens: budget of a batch: rows * the longest side of its longest pair, end-of-sentence
            counted. A pair longer than the budget makes a batch of its own.
        window: pairs sorted together. More of them: less padding, less mixing.
    """

    batch_tokens: int = 4096
    window: int = 65_536

    def __post_init__(self) -> None:
        if self.batch_tokens < 1 or self.window < 1:
            raise SettingsError("batch_tokens and window must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Cursor:
    """A place in the stream of batches: the next one is `batch` of `window` of `epoch`."""

    epoch: int = 0
    window: int = 0
    batch: int = 0


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs as padded tensors. S and T are the longest lengths with one special symbol."""

    source: Int64[Tensor, "B S"]  # ids, EOS, PAD...
    source_mask: Bool[Tensor, "B S"]  # True = real
    target_in: Int64[Tensor, "B T"]  # BOS, ids, PAD...
    target_out: Int64[Tensor, "B T"]  # ids, EOS, PAD...
    target_mask: Bool[Tensor, "B T"]  # True = real
    target_tokens: int  # target_mask's sum, known without asking the device

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on `device`; from pinned memory to a GPU, without waiting for the copy."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """The same batch in memory that a GPU can copy from by itself."""
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
    """Pad rows of ids (without special symbols) to one batch."""
    assert len(sources) == len(targets) > 0
    source, source_mask = _pad_with_end(sources)
    target_out, target_mask = _pad_with_end(targets)
    # [B, T]: the output moved right by one; where it then shows EOS, the input has ended.
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


def _pad_with_end(rows: Sequence[Ids]) -> tuple[Int64[Tensor, "B L"], Bool[Tensor, "B L"]]:
    lengths = np.array([len(row) + 1 for row in rows])
    padded = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for line, row in zip(padded, rows, strict=True):
        line[: len(row)] = row
        line[len(row)] = EOS
    # [1, L] < [B, 1] -> [B, L]
    mask = np.arange(padded.shape[1])[None, :] < lengths[:, None]
    return torch.from_numpy(padded), torch.from_numpy(mask)


def batches(
    source_lengths: Lengths,
    target_lengths: Lengths,
    config: BatchingConfig,
    seed: int,
    cursor: Cursor | None = None,
) -> Iterator[tuple[Cursor, Indices]]:
    """The endless stream of batches from `cursor` on (None: from the beginning).

    Lengths [N] are in subwords without special symbols. Yields the indices [B] of each batch's
    pairs, with the cursor of the batch after it: save that one to go on from there. Starting takes
    the time to permute one epoch, wherever the cursor stands. Every pair comes once in an epoch.

    Raises CorpusError when there are no pairs, or the cursor belongs to another corpus or config.
    """
    count = len(source_lengths)
    assert count == len(target_lengths) < 2**32
    if count == 0:
        raise CorpusError("there are no pairs to train on")
    windows = -(-count // config.window)
    place = cursor or Cursor()
    while True:
        if not 0 <= place.window < windows:
            raise _wrong_cursor(place)
        permutation = np.arange(count, dtype=np.uint32)
        _generator(seed, place.epoch).shuffle(permutation)
        for window in range(place.window, windows):
            chosen = permutation[window * config.window : (window + 1) * config.window]
            cut = _cut(chosen, source_lengths, target_lengths, config.batch_tokens)
            order = _generator(seed, place.epoch, window).permutation(len(cut))
            if not 0 <= place.batch < len(cut):
                raise _wrong_cursor(place)
            for batch in range(place.batch, len(cut)):
                if batch + 1 < len(cut):
                    place = Cursor(epoch=place.epoch, window=window, batch=batch + 1)
                elif window + 1 < windows:
                    place = Cursor(epoch=place.epoch, window=window + 1)
                else:
                    place = Cursor(epoch=place.epoch + 1)
                yield place, cut[order[batch]]


def sorted_batches(source_lengths: Lengths, target_lengths: Lengths, batch_tokens: int) -> list[Indices]:
    """Every pair once, in batches from short to long: for validation, where order is nothing."""
    if len(source_lengths) == 0:
        return []
    everything = np.arange(len(source_lengths))
    return _cut(everything, source_lengths, target_lengths, batch_tokens)


def _cut(
    chosen: npt.NDArray[np.integer[Any]],
    source_lengths: Lengths,
    target_lengths: Lengths,
    batch_tokens: int,
) -> list[Indices]:
    """Sort the chosen pairs by length, and cut them where the next one would break the budget."""
    source, target = source_lengths[chosen], target_lengths[chosen]
    widths = np.maximum(source, target).astype(np.int64) + 1
    # The width decides how many fit; among equals, those with the same shorter side stand together.
    order = np.lexsort((target.astype(np.int64) - source, widths))
    cuts = [0]
    for end, width in enumerate(widths[order].tolist()):
        if end > cuts[-1] and (end + 1 - cuts[-1]) * width > batch_tokens:
            cuts.append(end)
    return np.split(chosen[order].astype(np.int64), cuts[1:])


def _generator(seed: int, *place: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=place))


def _wrong_cursor(cursor: Cursor) -> CorpusError:
    return CorpusError(f"{cursor} is no place in this corpus; it belongs to another corpus, batch_tokens or window")
