"""LSTM and GRU layers: all positions at once by torch's kernels, or one at a time by the formulas."""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# What a layer remembers between two positions, [B, D] each: (h, c) of an LSTM, (h,) of a GRU.
CellState = tuple[Tensor, ...]
# (Wx [B, G], Uh [B, G], the state before) -> the state after
Cell = Callable[[Tensor, Tensor, CellState], CellState]
# (the inputs x_t that were not known beforehand, the state before t) -> the state after t
Advance = Callable[[Tensor, CellState], CellState]


def lstm_cell(
    from_input: Float[Tensor, "B G"], from_state: Float[Tensor, "B G"], state: CellState
) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
    """One position of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    i = σ(W_i x + U_i h)   f = σ(W_f x + U_f h)   g = tanh(W_g x + U_g h)   o = σ(W_o x + U_o h)
    c' = f ⊙ c + i ⊙ g     h' = o ⊙ tanh(c')

    `from_input` is Wx and `from_state` is Uh, each with its bias, of the four gates side by side.
    """
    _, c = state
    # [B, 4D] -> 4 x [B, D]
    i, f, g, o = (from_input + from_state).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(
    from_input: Float[Tensor, "B G"], from_state: Float[Tensor, "B G"], state: CellState
) -> tuple[Float[Tensor, "B D"]]:
    """One position of a GRU (Cho et al. 2014; the reset gate acts on U_n h instead of h, as in cuDNN and torch).

    r = σ(W_r x + U_r h)   z = σ(W_z x + U_z h)   n = tanh(W_n x + r ⊙ U_n h)
    h' = (1 - z) ⊙ n + z ⊙ h

    `from_input` is Wx and `from_state` is Uh, each with its bias, of r, z and n side by side.
    """
    (h,) = state
    # [B, 3D] -> 3 x [B, D]
    x_r, x_z, x_n = from_input.chunk(3, dim=-1)
    h_r, h_z, h_n = from_state.chunk(3, dim=-1)
    r, z = (x_r + h_r).sigmoid(), (x_z + h_z).sigmoid()
    n = (x_n + r * h_n).tanh()
    return ((1 - z) * n + z * h,)


class RecurrentLayer(nn.Module):
    """One layer of an LSTM or a GRU, in one direction.

    Args:
        cell: "lstm" or "gru".
        d_input: width of the inputs.
        d_state: width of the states.
    """

    def __init__(self, cell: Literal["lstm", "gru"], d_input: int, d_state: int) -> None:
        super().__init__()
        build = nn.LSTM if cell == "lstm" else nn.GRU
        self.kernel: nn.RNNBase = build(d_input, d_state, batch_first=True)
        self.cell: Cell = lstm_cell if cell == "lstm" else gru_cell

    def forward(self, x: Float[Tensor, "B T I"], state: CellState | None = None) -> Float[Tensor, "B T D"]:
        """The states h of all positions, from `state` on (None: zeros)."""
        if state is None:
            return self.kernel(x)[0]
        # [B, D] -> [1, B, D]: torch counts layers first, and cuDNN takes no slices
        first = tuple(part.unsqueeze(0).contiguous() for part in state)
        return self.kernel(x, first if len(first) == 2 else first[0])[0]

    def unroll(self, known: Float[Tensor, "T B K"]) -> Advance:
        """The same numbers, one position at a time: a function to be called T times.

        `known` are the first K features of the inputs of all T positions, whose products are computed here, at once;
        the others are given when their time has come.
        """
        steps, rows, width = known.shape
        weights = (weight.to(known.dtype) for weight in self.kernel.all_weights[0])
        input_weight, state_weight, input_bias, state_bias = weights
        # [T, B, K] -> [T, B, G]
        from_known = F.linear(known, input_weight[:, :width], input_bias)
        from_input = RepeatedProduct(input_weight[:, width:], from_known)
        from_state = RepeatedProduct(state_weight, state_bias.expand(steps, rows, -1))

        def advance(x: Float[Tensor, "B J"], state: CellState) -> CellState:
            return self.cell(from_input(x), from_state(state[0]), state)

        return advance


class ReadingLayer(nn.Module):
    """One layer of an encoder: reads every sentence of a padded batch from left to right, or in both directions.

    Args:
        forwards: reads from the first token to the last.
        backwards: reads from the last token to the first (Schuster and Paliwal 1997); None: nobody does.
    """

    def __init__(self, forwards: RecurrentLayer, backwards: RecurrentLayer | None) -> None:
        super().__init__()
        self.forwards = forwards
        self.backwards = backwards

    def forward(
        self, x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        """The states of all positions, and of each direction the one in which a sentence ends; D is both directions.

        Padding stands behind the sentence, where a direction comes last, so that what it holds changes nothing.
        A sentence of no tokens ends in zeros.
        """
        ahead = self.forwards(x)
        last = last_states(ahead, lengths)
        if self.backwards is None:
            return ahead, last
        back = self.backwards(reverse_sentences(x, lengths))
        # 2 x [B, S, D/2] -> [B, S, D]; 2 x [B, D/2] -> [B, D]
        states = torch.cat((ahead, reverse_sentences(back, lengths)), dim=-1)
        return states, torch.cat((last, last_states(back, lengths)), dim=-1)


def reverse_sentences(x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S D"]:
    """The first `lengths` positions of every row in the reverse order, padding where it was."""
    position = torch.arange(x.shape[1], device=x.device)
    # [B, 1] - [S] -> [B, S]
    mirrored = lengths.unsqueeze(1) - 1 - position
    rows = torch.arange(len(x), device=x.device).unsqueeze(1)
    return x[rows, torch.where(mirrored >= 0, mirrored, position)]


def last_states(x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
    """The state of the last of the first `lengths` positions, zeros where there is none."""
    rows = torch.arange(len(x), device=x.device)
    # [B, S, D] -> [B, D]
    return x[rows, (lengths - 1).clamp(min=0)] * (lengths > 0).unsqueeze(1)


class RepeatedProduct:
    """y_t = a_t + x_t Mᵀ for t = 0, 1, ..., T - 1, where x_t is known only after y_{t-1}; one call for each t.

    Autograd would make the gradient of M, Σ_t dy_tᵀ x_t, a sum of T matrices, each written to memory and added to
    those before it (under autocast in half precision). Here it is one product over all positions, formed when the
    gradients of all a_t are there, which are those of y_t.

    Args:
        matrix: M, [N, K], or one for each row of the batch, [B, N, K].
        added: a_t of all t, [T, ..., N], in the type of M and x_t; as many calls are to be made.
    """

    def __init__(self, matrix: Float[Tensor, "*B N K"], added: Float[Tensor, "T *rows N"]) -> None:
        self._inputs: list[Tensor] | None = None
        if len(added) > 1 and torch.is_grad_enabled():
            self._inputs = []
            added, matrix = _GradientOfMatrix.apply(added, matrix, self._inputs), matrix.detach()  # type: ignore[no-untyped-call]
        self._added = iter(added.unbind(0))
        # [..., N, K] -> [..., K, N]
        self._transposed = matrix.transpose(-2, -1)

    def __call__(self, x: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows N"]:
        """y_t of the next t."""
        if self._inputs is not None:
            self._inputs.append(x.detach())
        return next(self._added) + x @ self._transposed


class _GradientOfMatrix(torch.autograd.Function):
    """Passes a_t on; in the backward pass, the gradient of M too. `inputs` holds all x_t by then."""

    @staticmethod
    def forward(ctx: Any, added: Tensor, matrix: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs, ctx.batched = inputs, matrix.dim() == 3
        return added.view_as(added)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        assert len(ctx.inputs) == len(gradient), "a position was left out"
        # T x [..., K] -> [T, ..., K]
        dy, x = gradient, torch.stack(ctx.inputs)
        if ctx.batched:
            # [T, B, t, N] -> [B, T*t, N], and x alike: one sum for each row of the batch
            dy, x = dy.transpose(0, 1).flatten(1, 2), x.transpose(0, 1).flatten(1, 2)
        else:
            # [T, ..., N] -> [T*..., N], and x alike
            dy, x = dy.flatten(0, -2), x.flatten(0, -2)
        # Σ_t dy_tᵀ x_t
        return gradient, dy.transpose(-2, -1) @ x, None
