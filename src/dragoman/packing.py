"""A padded batch as rows of real tokens, and back.

All of a layer but attention works on one token at a time, so padding need not take part in it. And a CPU's matrix
library compiles each product for its shape: batches come in hundreds of shapes [B, T, D], but rounded up to a multiple
of ROWS the rows [N, D] come in a handful. For the same reason attention's grid of sentences by positions is rounded up,
to numbers of four binary digits and zeros after them.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

ROWS = 128


class Packing:
    """Where the real tokens of a batch [B, T] stand: among N rows, and in the grid [G, L] of attention.

    The rows are the real tokens, sentence after sentence, then at least one row that is no token. Such rows hold
    something finite in the forward pass, and their gradient is zero.

    Attributes:
        tokens: how many of the rows are tokens; they stand first.
        real: [N], True for the rows that are tokens.
        attended: [G, L], the keys that may be attended to; all of them in sentences that do not exist, so that no
            query is left without a key.
    """

    real: Bool[Tensor, " N"]
    attended: Bool[Tensor, "G L"]

    def __init__(self, real: Bool[Tensor, "B T"]) -> None:
        sentences, length = real.shape
        grid = F.pad(real, (0, _rounded(length) - length, 0, _rounded(sentences) - sentences))
        self.shape, self.grid_shape = real.shape, grid.shape
        self.tokens = int(real.sum())
        self._batch_of_row, self._row_of_batch = _maps(real, self.tokens)
        self._grid_of_row, self._row_of_grid = _maps(grid, self.tokens)
        self.real = torch.arange(len(self._batch_of_row), device=real.device) < self.tokens
        self.attended = grid | ~grid.any(dim=1, keepdim=True)

    def pack(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "N D"]:
        """The real tokens of a batch as rows."""
        return _Rows.apply(x.flatten(0, 1), self._batch_of_row, self._row_of_batch)  # type: ignore[no-untyped-call]

    def unpack(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "B T D"]:
        """The rows as a batch; padding holds something finite."""
        x: Tensor = _Places.apply(rows, self._batch_of_row, self._row_of_batch, self.tokens)  # type: ignore[no-untyped-call]
        # [B*T, D] -> [B, T, D]
        return x.unflatten(0, self.shape)

    def from_grid(self, x: Float[Tensor, "G L D"]) -> Float[Tensor, "N D"]:
        """What attention gave, as rows."""
        return _Rows.apply(x.flatten(0, 1), self._grid_of_row, self._row_of_grid)  # type: ignore[no-untyped-call]

    def to_grid(self, rows: Float[Tensor, "N D"]) -> Float[Tensor, "G L D"]:
        """The rows as sentences by positions, for attention."""
        x: Tensor = _Places.apply(rows, self._grid_of_row, self._row_of_grid, self.tokens)  # type: ignore[no-untyped-call]
        # [G*L, D] -> [G, L, D]
        return x.unflatten(0, self.grid_shape)


def packing_of(real: Bool[Tensor, "B T"]) -> Packing | None:
    """The packing of a batch where it pays: on a CPU."""
    return Packing(real) if real.device.type == "cpu" else None


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
