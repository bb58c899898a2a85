"""Repeated application of one block: a fixed number of times, or adaptively for each position.

Both classes are called as `depth(x, apply, real)`. `apply(state, step)` applies the block once to all positions, with
`step` counted from 1; `real` is True for the positions that are not padding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

Apply = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class DepthOutput:
    """Result of applying a block repeatedly.

    Attributes:
        output: [..., D], output of each position.
        state: [..., D], state of each position after the last step; for a position that halted earlier, its last state.
        steps: [...], N, number of times that the state of each position was updated; 0 for padding.
        ponder: [...], ρ = N + R, ponder cost of each position (Graves, 2016); 0 for padding and for a fixed depth.
    """

    output: Float[Tensor, "*BT D"]
    state: Float[Tensor, "*BT D"]
    steps: Float[Tensor, "*BT"]
    ponder: Float[Tensor, "*BT"]


class FixedDepth(nn.Module):
    """Apply a block T times to every position; the output is the last state."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Float[Tensor, "*BT D"], apply: Apply, real: Bool[Tensor, "*BT"] | None = None) -> DepthOutput:
        """Apply the block to `x`, then repeatedly to its own output."""
        state = x
        for step in range(1, self.steps + 1):
            state = apply(state, step)
        # [..., D] -> [...]
        zeros = x.new_zeros(x.shape[:-1], dtype=torch.float32)
        steps = zeros + self.steps if real is None else zeros.masked_fill(real, self.steps)
        return DepthOutput(state, state, steps, zeros)


class AdaptiveDepth(nn.Module):
    """Adaptive computation time, independently for every position (Graves, 2016, section 2).

    With s^n the state after n applications, ε the threshold, and T the maximum number of applications:

        h^n = σ(W s^n + b)                      probability of halting
        N   = min{n : h^1 + ... + h^n ≥ 1 - ε}  but at most T
        R   = 1 - (h^1 + ... + h^(N-1))         remainder
        p^n = h^n for n < N,  p^N = R           weights, which sum to 1

    The output is Σ_n p^n s^n. After N applications, the state of a position is copied from step to step until all
    positions have halted (Dehghani et al., 2018, section 2.3), so that other positions can still attend to it. The code
    in the appendix of that paper differs from these equations, to which its text refers: it computes h from the state
    before an application, and mixes each state with the previous mean using weights that do not sum to 1.

    Halting probabilities are computed in float32 or a wider type, also under autocast: bf16 is too imprecise for the
    comparison with a threshold.

    Args:
        d_model: width of the states.
        steps: T, the maximum number of applications.
        threshold: ε.
    """

    def __init__(self, d_model: int, steps: int, threshold: float) -> None:
        super().__init__()
        self.steps = steps
        self.threshold = threshold
        self.halting = nn.Linear(d_model, 1)
        nn.init.xavier_uniform_(self.halting.weight)
        # As in tensor2tensor: σ(1) = 0.73, so most positions of an untrained model halt after two steps.
        nn.init.ones_(self.halting.bias)

    def forward(self, x: Float[Tensor, "*BT D"], apply: Apply, real: Bool[Tensor, "*BT"] | None = None) -> DepthOutput:
        """Apply the block until every position has halted; further steps would not change the result."""
        state = x
        # [..., D] -> [...]
        running = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device) if real is None else real
        zeros = torch.zeros(x.shape[:-1], dtype=self._halting_dtype(), device=x.device)
        # halted: h^1 + ... + h^(n-1)
        halted, steps, remainder, output = zeros, zeros, zeros, zeros.unsqueeze(-1)
        for step in range(1, self.steps + 1):
            state = torch.where(running.unsqueeze(-1), apply(state, step), state)
            h = self.probability(state)
            halts = (halted + h >= 1 - self.threshold) | (step == self.steps)
            p = torch.where(halts, 1 - halted, h) * running
            output = output + p.unsqueeze(-1) * state
            steps = steps + running
            remainder = torch.where(running & halts, p, remainder)
            halted = halted + h
            running = running & ~halts
            if not running.any():
                break
        return DepthOutput(output.to(state.dtype), state, steps, steps + remainder)

    def probability(self, state: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT"]:
        """Return the halting probability h = σ(W s + b) of each position."""
        dtype, unit = self._halting_dtype(), self.halting
        with torch.autocast(state.device.type, enabled=False):
            # [..., D] -> [..., 1] -> [...]
            return F.linear(state.to(dtype), unit.weight.to(dtype), unit.bias.to(dtype)).sigmoid().squeeze(-1)

    def _halting_dtype(self) -> torch.dtype:
        return torch.promote_types(self.halting.weight.dtype, torch.float32)
