"""The memory layout of a batch: padded, or packed as rows of real tokens.

All parts of a layer except attention process each token separately, so they need not process padding. In addition, the
matrix library of a CPU compiles each product for its shape: batches [B, T, D] have hundreds of shapes, whereas packed
rows [N, D], with N rounded up to a multiple of `ROWS`, have only a few. For the same reason both sizes of attention's
grid [G, L, D] are rounded up, to numbers with at most four significant binary digits.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

# The number of packed rows is a multiple of this.
ROWS = 128


class Layout(ABC):
    """Memory layout of a batch [B, T] of tokens and padding; one object for each side of the batch.

    Layers work on rows [*BT, D]; attention works on a grid of sentences by positions [G, L, D]. `layout_of` selects the
    layout. Embeddings are converted to rows once, and rows are converted to a batch only where a batch is needed.

    Attributes:
        mask: [B, T], True for tokens and False for padding.
        packed: True if padding is left out of the rows.
    """

    packed: ClassVar[bool]

    def __init__(self, mask: Bool[Tensor, "B T"]) -> None:
        self.mask = mask

    @property
    @abstractmethod
    def real(self) -> Bool[Tensor, "*BT"]:
        """True for the rows that are tokens."""

    @property
    @abstractmethod
    def attendable(self) -> Bool[Tensor, "G L"]:
        """True for the keys of the grid that may be attended to."""

    @abstractmethod
    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "*BT D"]:
        """Convert a batch to rows."""

    @abstractmethod
    def batch(self, rows: Float[Tensor, "*BT D"]) -> Float[Tensor, "B T D"]:
        """Convert rows to a batch; the values at padding are finite but otherwise unspecified."""

    @abstractmethod
    def to_grid(self, rows: Float[Tensor, "*BT D"]) -> Float[Tensor, "G L D"]:
        """Convert rows to attention's grid of sentences by positions."""

    @abstractmethod
    def from_grid(self, x: Float[Tensor, "G L D"]) -> Float[Tensor, "*BT D"]:
        """Convert attention's grid to rows."""

    @abstractmethod
    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " M"]:
        """Return the elements of `x` in the order of the rows; packed: only those of tokens."""


class Padded(Layout):
    """The padded batch unchanged: the rows and attention's grid are both [B, T, D]."""

    packed = False

    @property
    def real(self) -> Bool[Tensor, "B T"]:
        """See `Layout.real`: the mask."""
        return self.mask

    @property
    def attendable(self) -> Bool[Tensor, "B T"]:
        """See `Layout.attendable`: the mask."""
        return self.mask

    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return `x` unchanged."""
        return x

    def batch(self, rows: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return `rows` unchanged."""
        return rows

    def to_grid(self, rows: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return `rows` unchanged."""
        return rows

    def from_grid(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return `x` unchanged."""
        return x

    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " B*T"]:
        """Return all elements, including those of padding."""
        return x.flatten()


class Dense(Layout):
    """A batch without padding: the rows are [B*T, D], a view of the batch, and attention's grid is the batch.

    Args:
        mask: [B, T], True everywhere.
    """

    packed = True

    @property
    def tokens(self) -> int:
        """Number of rows."""
        return self.mask.numel()

    @property
    def real(self) -> Bool[Tensor, " N"]:
        """See `Layout.real`: all rows are tokens."""
        return self.mask.flatten()

    @property
    def attendable(self) -> Bool[Tensor, "B T"]:
        """See `Layout.attendable`: all positions."""
        return self.mask

    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """See `Layout.rows`."""
        # [B, T, D] -> [B*T, D]
        return x.flatten(0, 1)

    def batch(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """See `Layout.batch`."""
        # [B*T, D] -> [B, T, D]
        return rows.unflatten(0, self.mask.shape)

    def to_grid(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """See `Layout.to_grid`."""
        return self.batch(rows)

    def from_grid(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """See `Layout.from_grid`."""
        return self.rows(x)

    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " N"]:
        """Return all elements."""
        return x.flatten()


class Packed(Layout):
    """The real tokens as rows [N, D], sentence by sentence, followed by at least one filler row.

    Filler rows have finite values in the forward pass, and their gradient is zero. Attention's grid [G, L] may be
    larger than the batch; all keys of the added, empty sentences may be attended to, so that every query has a key.
    Index tensors are computed when they are first used.
    """

    packed = True

    @cached_property
    def tokens(self) -> int:
        """Number of rows that are tokens; they come first."""
        return int(self.mask.sum())

    @cached_property
    def real(self) -> Bool[Tensor, " N"]:
        """True for the rows that are tokens."""
        return torch.arange(len(self._batch_maps[0]), device=self.mask.device) < self.tokens

    @cached_property
    def attendable(self) -> Bool[Tensor, "G L"]:
        """True for the keys that are tokens, and for all keys of a sentence without tokens."""
        return self._grid | ~self._grid.any(dim=1, keepdim=True)

    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """Return the real tokens of a batch as rows."""
        return _GatherRows.apply(x.flatten(0, 1), *self._batch_maps)  # type: ignore[no-untyped-call]

    def batch(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """See `Layout.batch`."""
        x: Tensor = _GatherSlots.apply(rows, *self._batch_maps, self.tokens)  # type: ignore[no-untyped-call]
        # [B*T, D] -> [B, T, D]
        return x.unflatten(0, self.mask.shape)

    def to_grid(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "G L D"]:
        """See `Layout.to_grid`."""
        x: Tensor = _GatherSlots.apply(rows, *self._grid_maps, self.tokens)  # type: ignore[no-untyped-call]
        # [G*L, D] -> [G, L, D]
        return x.unflatten(0, self._grid.shape)

    def from_grid(self, x: Float[Tensor, "G L D"]) -> Float[Tensor, "N D"]:
        """See `Layout.from_grid`."""
        return _GatherRows.apply(x.flatten(0, 1), *self._grid_maps)  # type: ignore[no-untyped-call]

    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " tokens"]:
        """Return the elements of the real tokens."""
        return x.flatten()[self._batch_maps[0][: self.tokens]]

    @cached_property
    def _batch_maps(self) -> tuple[Tensor, Tensor]:
        return _index_maps(self.mask, self.tokens)

    @cached_property
    def _grid(self) -> Bool[Tensor, "G L"]:
        sentences, length = self.mask.shape
        return F.pad(self.mask, (0, _round_up(length) - length, 0, _round_up(sentences) - sentences))

    @cached_property
    def _grid_maps(self) -> tuple[Tensor, Tensor]:
        return _index_maps(self._grid, self.tokens)


def dense(tokens: Shaped[Tensor, "B T"]) -> Dense:
    """Return the layout of a batch without padding, of the shape of `tokens`."""
    return Dense(torch.ones(1, 1, dtype=torch.bool, device=tokens.device).expand(tokens.shape))


def layout_of(mask: Bool[Tensor, "B T"]) -> Layout:
    """Select the layout of a batch: packed on a CPU, where it is faster, and padded on other devices.

    Args:
        mask: True for tokens, False for padding.

    Example:
        >>> import torch
        >>> mask = torch.tensor([[True, True, True], [True, False, False]])
        >>> layout = layout_of(mask)
        >>> layout.packed, layout.tokens
        (True, 4)
        >>> layout.rows(torch.zeros(2, 3, 8)).shape
        torch.Size([128, 8])
    """
    return Packed(mask) if mask.device.type == "cpu" else Padded(mask)


def _round_up(number: int) -> int:
    """Round up to four significant binary digits, which adds at most an eighth."""
    step = 1 << max(number.bit_length() - 4, 0)
    return -(-number // step) * step


def _index_maps(real: Bool[Tensor, "B T"], tokens: int) -> tuple[Int[Tensor, " N"], Int[Tensor, " P"]]:
    """Return the slot of each row and the row of each slot; a slot is one of the P = B*T elements of a padded batch.

    Filler rows map to slot 0; slots of padding map to the first filler row.
    """
    token_slots = real.flatten().nonzero().squeeze(1)
    rows = tokens + 1 + -(tokens + 1) % ROWS
    slot_of_row = F.pad(token_slots, (0, rows - tokens))
    row_of_slot = torch.full((real.numel(),), tokens, device=real.device)
    row_of_slot[token_slots] = torch.arange(tokens, device=real.device)
    return slot_of_row, row_of_slot


class _GatherRows(torch.autograd.Function):
    """Gather rows from slots. The gradient is gathered too, which is faster than the scatter of autograd."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, slot_of_row: Tensor, row_of_slot: Tensor) -> Tensor:
        ctx.save_for_backward(row_of_slot)
        return x.index_select(0, slot_of_row)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (row_of_slot,) = ctx.saved_tensors
        # Slots of padding receive the gradient of a filler row, which is zero.
        return gradient.index_select(0, row_of_slot), None, None


class _GatherSlots(torch.autograd.Function):
    """Gather slots from rows, with a gathered gradient as in `_GatherRows`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, slot_of_row: Tensor, row_of_slot: Tensor, tokens: int) -> Tensor:
        ctx.save_for_backward(slot_of_row)
        ctx.tokens = tokens
        return rows.index_select(0, row_of_slot)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (slot_of_row,) = ctx.saved_tensors
        rows = gradient.index_select(0, slot_of_row)
        rows[ctx.tokens :] = 0.0
        return rows, None, None, None
