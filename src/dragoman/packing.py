"""The layout of a batch: padded, or packed as rows of real tokens.

All of a layer but attention works on one token at a time, so padding need not take part in it. And a CPU's matrix
library compiles each product for its shape: batches come in hundreds of shapes [B, T, D], but rounded up to a multiple
of ROWS the rows [N, D] come in a handful. For the same reason attention's grid of sentences by positions is rounded up,
to numbers of four binary digits and zeros after them.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 128


class Layout(ABC):
    """How a batch [B, T] of tokens and padding lies in memory while layers work on it; one object for each side.

    Layers work on rows, [*BT, D], and attention on a grid of sentences by positions, [G, L, D]. `layout_of` decides
    which layout a batch has; embeddings become rows once, and rows become a batch again only where one is asked for.
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
    def attended(self) -> Bool[Tensor, "G L"]:
        """The keys of the grid that may be attended to."""

    @abstractmethod
    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "*BT D"]:
        """Return a batch as rows."""

    @abstractmethod
    def batch(self, rows: Float[Tensor, "*BT D"]) -> Float[Tensor, "B T D"]:
        """Return rows as a batch; padding holds something finite."""

    @abstractmethod
    def to_grid(self, rows: Float[Tensor, "*BT D"]) -> Float[Tensor, "G L D"]:
        """Return rows as sentences by positions, for attention."""

    @abstractmethod
    def from_grid(self, x: Float[Tensor, "G L D"]) -> Float[Tensor, "*BT D"]:
        """Return what attention gave as rows."""

    @abstractmethod
    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " M"]:
        """Return one value for each row; of packed rows, for each that is a token."""


class Padded(Layout):
    """The batch as it is: rows are [B, T, D], and so is attention's grid."""

    packed = False

    @property
    def real(self) -> Bool[Tensor, "B T"]:
        """The mask."""
        return self.mask

    @property
    def attended(self) -> Bool[Tensor, "B T"]:
        """The mask."""
        return self.mask

    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the batch."""
        return x

    def batch(self, rows: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the batch."""
        return rows

    def to_grid(self, rows: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the batch."""
        return rows

    def from_grid(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Return the batch."""
        return x

    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " B*T"]:
        """Return the values of all places, padding too."""
        return x.flatten()


class Packed(Layout):
    """The real tokens as rows [N, D], sentence after sentence, then at least one row that is no token.

    Rows that are no token hold something finite in the forward pass, and their gradient is zero. Attention's grid
    [G, L] is larger than the batch; all keys of sentences that do not exist may be attended to, so that no query is
    left without one. What a model does not need is not computed.
    """

    packed = True

    @cached_property
    def tokens(self) -> int:
        """The number of rows that are tokens; they come first."""
        return int(self.mask.sum())

    @cached_property
    def real(self) -> Bool[Tensor, " N"]:
        """True for the rows that are tokens."""
        return torch.arange(len(self._batch_maps[0]), device=self.mask.device) < self.tokens

    @cached_property
    def attended(self) -> Bool[Tensor, "G L"]:
        """The keys of the grid that are tokens; all of them in a sentence without any."""
        return self._grid | ~self._grid.any(dim=1, keepdim=True)

    def rows(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """Return the real tokens of a batch as rows."""
        return _Rows.apply(x.flatten(0, 1), *self._batch_maps)  # type: ignore[no-untyped-call]

    def batch(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """Return the rows as a batch; padding holds something finite."""
        x: Tensor = _Places.apply(rows, *self._batch_maps, self.tokens)  # type: ignore[no-untyped-call]
        # [B*T, D] -> [B, T, D]
        return x.unflatten(0, self.mask.shape)

    def to_grid(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "G L D"]:
        """Return the rows as sentences by positions, for attention."""
        x: Tensor = _Places.apply(rows, *self._grid_maps, self.tokens)  # type: ignore[no-untyped-call]
        # [G*L, D] -> [G, L, D]
        return x.unflatten(0, self._grid.shape)

    def from_grid(self, x: Float[Tensor, "G L D"]) -> Float[Tensor, "N D"]:
        """Return what attention gave as rows."""
        return _Rows.apply(x.flatten(0, 1), *self._grid_maps)  # type: ignore[no-untyped-call]

    def values(self, x: Shaped[Tensor, "B T"]) -> Shaped[Tensor, " tokens"]:
        """Return the values of the real tokens."""
        return x.flatten()[self._batch_maps[0][: self.tokens]]

    @cached_property
    def _batch_maps(self) -> tuple[Tensor, Tensor]:
        return _maps(self.mask, self.tokens)

    @cached_property
    def _grid(self) -> Bool[Tensor, "G L"]:
        sentences, length = self.mask.shape
        return F.pad(self.mask, (0, _rounded(length) - length, 0, _rounded(sentences) - sentences))

    @cached_property
    def _grid_maps(self) -> tuple[Tensor, Tensor]:
        return _maps(self._grid, self.tokens)


def layout_of(mask: Bool[Tensor, "B T"]) -> Layout:
    """Return the layout of a batch: packed where that pays, on a CPU."""
    return Packed(mask) if mask.device.type == "cpu" else Padded(mask)


def _rounded(number: int) -> int:
    """The next number that is four binary digits and then zeros: at most an eighth more."""
    step = 1 << max(number.bit_length() - 4, 0)
    return -(-number // step) * step


def _maps(real: Bool[Tensor, "B T"], tokens: int) -> tuple[Int[Tensor, " N"], Int[Tensor, " P"]]:
    """The place (of P = B*T) of each row, and the row of each place.

    Rows that are no token point to the first place; places that are no token point to the first such row.
    """
    places = real.flatten().nonzero().squeeze(1)
    rows = tokens + 1 + -(tokens + 1) % ROWS
    place_of_row = F.pad(places, (0, rows - tokens))
    row_of_place = torch.full((real.numel(),), tokens, device=real.device)
    row_of_place[places] = torch.arange(tokens, device=real.device)
    return place_of_row, row_of_place


class _Rows(torch.autograd.Function):
    """Places to rows. The gradient is gathered too, which is faster than the scattering that autograd would do."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, place_of_row: Tensor, row_of_place: Tensor) -> Tensor:
        ctx.save_for_backward(row_of_place)
        return x.index_select(0, place_of_row)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (row_of_place,) = ctx.saved_tensors
        # Places that are no token get the gradient of a row that is no token: zero.
        return gradient.index_select(0, row_of_place), None, None


class _Places(torch.autograd.Function):
    """Rows to places."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place_of_row: Tensor, row_of_place: Tensor, tokens: int) -> Tensor:
        ctx.save_for_backward(place_of_row)
        ctx.tokens = tokens
        return rows.index_select(0, row_of_place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (place_of_row,) = ctx.saved_tensors
        rows = gradient.index_select(0, place_of_row)
        rows[ctx.tokens :] = 0.0
        return rows, None, None, None
