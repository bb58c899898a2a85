"""LSTM and GRU layers: all positions at once with torch's kernels, or one at a time with the formulas."""

from collections.abc import Callable
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

# State of a layer between two positions, each tensor [B, D]: (h, c) of an LSTM, (h,) of a GRU.
CellState = tuple[Tensor, ...]
# (Wx [B, G], Uh [B, G], previous state) -> next state
Cell = Callable[[Tensor, Tensor, CellState], CellState]
# (the remaining features of the input at position t, state before t) -> state after t
Advance = Callable[[Tensor, CellState], CellState]


def lstm_cell(
    from_input: Float[Tensor, "B G"], from_state: Float[Tensor, "B G"], state: CellState
) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
    """Compute one position of an LSTM (Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000).

    i = σ(W_i x + U_i h)   f = σ(W_f x + U_f h)   g = tanh(W_g x + U_g h)   o = σ(W_o x + U_o h)
    c' = f ⊙ c + i ⊙ g     h' = o ⊙ tanh(c')

    Args:
        from_input: Wx with its bias, for the gates i, f, g and o, concatenated.
        from_state: Uh with its bias, in the same order.
        state: (h, c).

    Returns:
        (h', c').
    """
    _, c = state
    # [B, 4D] -> 4 x [B, D]
    i, f, g, o = (from_input + from_state).chunk(4, dim=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def gru_cell(
    from_input: Float[Tensor, "B G"], from_state: Float[Tensor, "B G"], state: CellState
) -> tuple[Float[Tensor, "B D"]]:
    """Compute one position of a GRU (Cho et al. 2014, but r multiplies U_n h instead of h, as in cuDNN and torch).

    r = σ(W_r x + U_r h)   z = σ(W_z x + U_z h)   n = tanh(W_n x + r ⊙ U_n h)
    h' = (1 - z) ⊙ n + z ⊙ h

    Args:
        from_input: Wx with its bias, for r, z and n, concatenated.
        from_state: Uh with its bias, in the same order.
        state: (h,).

    Returns:
        (h',).
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
        """Return the states h at all positions; the initial state is `state`, or zeros if it is None."""
        if state is None:
            return self.kernel(x)[0]
        return self.read(x, state)[0]

    @property
    def state_parts(self) -> int:
        """Number of tensors of a state: 2 for an LSTM, 1 for a GRU."""
        return 2 if isinstance(self.kernel, nn.LSTM) else 1

    def read(self, x: Float[Tensor, "B T I"], state: CellState) -> tuple[Float[Tensor, "B T D"], CellState]:
        """Return the states h at all positions after `state`, and the state after the last position."""
        # [B, D] -> [1, B, D]: torch's first dimension counts layers, and cuDNN needs contiguous tensors
        initial = tuple(part.unsqueeze(0).contiguous() for part in state)
        states, last = self.kernel(x, initial if len(initial) == 2 else initial[0])
        # [1, B, D] -> [B, D]
        return states, tuple(part.squeeze(0) for part in (last if len(initial) == 2 else (last,)))

    def unroll(self, prefix: Float[Tensor, "T B K"]) -> Advance:
        """Return a function that computes the states one position at a time, to be called T times.

        Its results equal those of `forward`.

        Args:
            prefix: the first K features of the inputs at all T positions. Their products are computed here, in one
                call; the function takes the remaining features, which may depend on the previous states.
        """
        steps, rows, width = prefix.shape
        weights = (weight.to(prefix.dtype) for weight in self.kernel.all_weights[0])
        input_weight, state_weight, input_bias, state_bias = weights
        # [T, B, K] -> [T, B, G]
        from_prefix = F.linear(prefix, input_weight[:, :width], input_bias)
        from_input = RepeatedProduct(input_weight[:, width:], from_prefix)
        from_state = RepeatedProduct(state_weight, state_bias.expand(steps, rows, -1))

        def advance(x: Float[Tensor, "B J"], state: CellState) -> CellState:
            return self.cell(from_input(x), from_state(state[0]), state)

        return advance


class RecurrentEncoderLayer(nn.Module):
    """One layer of a recurrent encoder, in one direction or bidirectional.

    Args:
        forwards: layer that processes a sentence from the first token to the last.
        backwards: layer that processes it from the last token to the first (Schuster and Paliwal 1997); None for an
            encoder of one direction.
    """

    def __init__(self, forwards: RecurrentLayer, backwards: RecurrentLayer | None) -> None:
        super().__init__()
        self.forwards = forwards
        self.backwards = backwards

    def forward(
        self, x: Float[Tensor, "B S I"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B D"]]:
        """Return the states at all positions, and the final state of each direction; D counts both directions.

        Each direction processes the padding of a sentence after its tokens, so padding does not affect the states of
        tokens. The final state of an empty sentence is zeros.

        Args:
            x: padded batch of inputs; padding is at the end.
            lengths: number of tokens of each sentence.
        """
        forward_states = self.forwards(x)
        final = last_states(forward_states, lengths)
        if self.backwards is None:
            return forward_states, final
        backward_states = self.backwards(reverse_sentences(x, lengths))
        # 2 x [B, S, D/2] -> [B, S, D]; 2 x [B, D/2] -> [B, D]
        states = torch.cat((forward_states, reverse_sentences(backward_states, lengths)), dim=-1)
        return states, torch.cat((final, last_states(backward_states, lengths)), dim=-1)


def reverse_sentences(x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S D"]:
    """Reverse the order of the first `lengths` positions of every row; padding keeps its positions."""
    position = torch.arange(x.shape[1], device=x.device)
    # [B, 1] - [S] -> [B, S]
    mirrored = lengths.unsqueeze(1) - 1 - position
    rows = torch.arange(len(x), device=x.device).unsqueeze(1)
    return x[rows, torch.where(mirrored >= 0, mirrored, position)]


def last_states(x: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B D"]:
    """Return the state at position `lengths` - 1 of every row, or zeros where the length is 0."""
    rows = torch.arange(len(x), device=x.device)
    # [B, S, D] -> [B, D]
    return x[rows, (lengths - 1).clamp(min=0)] * (lengths > 0).unsqueeze(1)


class RepeatedProduct:
    """y_t = a_t + x_t Mᵀ for t = 0, 1, ..., T - 1, where x_t may depend on y_{t-1}; one call for each t.

    Autograd would compute the gradient of M, Σ_t dy_tᵀ x_t, as a sum of T matrices, each written to memory and added to
    the sum (in half precision under autocast). This class computes it as one product over all positions, once the
    gradients of all a_t, which equal those of y_t, are available.

    Args:
        matrix: M, [N, K], or one matrix for each row of the batch, [B, N, K].
        added: a_t for all t, [T, ..., N], in the type of M and x_t. The object must be called T times.
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
        """Return y_t for the next t."""
        if self._inputs is not None:
            self._inputs.append(x.detach())
        return next(self._added) + x @ self._transposed


class _GradientOfMatrix(torch.autograd.Function):
    """Identity on all a_t, whose backward pass also computes the gradient of M from `inputs`, the list of all x_t."""

    @staticmethod
    def forward(ctx: Any, added: Tensor, matrix: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs, ctx.batched = inputs, matrix.dim() == 3
        return added.view_as(added)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        assert len(ctx.inputs) == len(gradient), "the product was not called once for each position"
        # T x [..., K] -> [T, ..., K]
        dy, x = gradient, torch.stack(ctx.inputs)
        if ctx.batched:
            # [T, B, t, N] -> [B, T*t, N], likewise x: one sum for each row of the batch
            dy, x = dy.transpose(0, 1).flatten(1, 2), x.transpose(0, 1).flatten(1, 2)
        else:
            # [T, ..., N] -> [T*..., N], likewise x
            dy, x = dy.flatten(0, -2), x.flatten(0, -2)
        # Σ_t dy_tᵀ x_t
        return gradient, dy.transpose(-2, -1) @ x, None
