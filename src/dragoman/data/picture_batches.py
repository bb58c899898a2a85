"""Batches of pictures: an endless stream that can start at any cursor, and pixels as numbers for a model.

An epoch takes the pictures in a random order, which depends only on the seed and the epoch.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Float32, Int64, UInt8
from torch import Tensor

from dragoman.data.batching import Cursor, generator, wrong_cursor
from dragoman.data.picture_reading import PictureSet
from dragoman.errors import SettingsError


def to_unit(images: UInt8[Tensor, "..."]) -> Float32[Tensor, "..."]:
    """Return the bytes 0 to 255 as numbers from -1 to 1.

    Example:
        >>> to_unit(torch.tensor([0, 255], dtype=torch.uint8)).tolist()
        [-1.0, 1.0]
    """
    return images.float() / 127.5 - 1


def to_bytes(images: Float[Tensor, "..."]) -> UInt8[Tensor, "..."]:
    """Return numbers from -1 to 1 as bytes, rounded; numbers outside this range are clamped to it."""
    return ((images.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True, kw_only=True)
class PictureBatch:
    """Pictures as tensors.

    Attributes:
        images: bytes; see `to_unit`.
        labels: index of the label of each picture; None without labels.
    """

    images: UInt8[Tensor, "B C H W"]
    labels: Int64[Tensor, " B"] | None

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.images)

    def to(self, device: torch.device | str) -> "PictureBatch":
        """Return the batch on `device`; the copy from pinned memory to a GPU is asynchronous."""
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "PictureBatch":
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""
        return self._each(Tensor.pin_memory)

    def rows(self, start: int, end: int) -> "PictureBatch":
        """Return the pictures from `start` to before `end`."""
        return self._each(lambda tensor: tensor[start:end])

    def _each(self, change: Callable[[Tensor], Tensor]) -> "PictureBatch":
        return PictureBatch(
            images=change(self.images),
            labels=None if self.labels is None else change(self.labels),
        )


def picture_batch(
    pictures: PictureSet, indices: npt.NDArray[np.int64], flipped: npt.NDArray[np.bool_] | None = None
) -> PictureBatch:
    """Return the batch of the pictures with these indices [B].

    Args:
        pictures: the pictures.
        indices: which of them.
        flipped: True for the pictures to mirror, left to right [B]; None for none.
    """
    # [N, S, S, C] -> [B, S, S, C], a copy
    images = pictures.images[indices]
    if flipped is not None:
        images[flipped] = images[flipped, :, ::-1]
    # [B, S, S, C] -> [B, C, S, S]
    images = np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    labels = None if pictures.labels is None else torch.from_numpy(pictures.labels[indices])
    return PictureBatch(images=torch.from_numpy(images), labels=labels)


def batches_in_order(pictures: PictureSet, size: int) -> Iterator[PictureBatch]:
    """Yield all pictures in their order, in batches of at most `size`."""
    for start in range(0, len(pictures), size):
        yield picture_batch(pictures, np.arange(start, min(start + size, len(pictures))))


@dataclass(frozen=True, kw_only=True)
class PictureStream:
    """Endless stream of batches of equal size; its batches depend only on the seed and the cursor.

    The pictures at the end of an epoch that do not fill a batch are left out of it; another epoch leaves out others.
    If there are fewer pictures than a batch has, an epoch is one batch, in which pictures are repeated: each occurs
    equally often, or once more than others.

    Attributes:
        pictures: the pictures.
        batch_size: number of pictures in a batch.
        seed: seed of the order and of the mirrored pictures.
        flips: mirror each picture, left to right, with probability 1/2 each time.
    """

    pictures: PictureSet
    batch_size: int
    seed: int
    flips: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise SettingsError(f"a batch must have at least 1 picture, not {self.batch_size}")
        if self.seed < 0:
            raise SettingsError(f"the seed must be at least 0, not {self.seed}")

    @property
    def batches_per_epoch(self) -> int:
        """Number of batches of an epoch."""
        return max(1, len(self.pictures) // self.batch_size)

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[PictureBatch, Cursor]]:
        """Yield each batch with the cursor after it.

        Raises:
            CorpusError: if the cursor belongs to other pictures or another size of batches.
        """
        following = cursor
        count = self.batches_per_epoch
        while True:
            if following.epoch < 0 or following.window != 0 or not 0 <= following.batch < count:
                raise wrong_cursor(following)
            epoch = following.epoch
            order = generator(self.seed, epoch).permutation(len(self.pictures))
            for index in range(following.batch, count):
                # Repeats the order if it is shorter than a batch.
                rows = np.resize(order, self.batch_size) if len(order) < self.batch_size else order
                rows = rows[index * self.batch_size : (index + 1) * self.batch_size]
                flipped = generator(self.seed, epoch, index).random(self.batch_size) < 0.5 if self.flips else None
                last = index + 1 == count
                following = Cursor(epoch=epoch + last, batch=0 if last else index + 1)
                yield picture_batch(self.pictures, rows, flipped), following

    def longest(self) -> PictureBatch:
        """Return a batch; all have the same size."""
        return picture_batch(self.pictures, np.resize(np.arange(len(self.pictures)), self.batch_size))
