"""How often a block is applied to its own output: as often for all positions, or as each position decides.

A depth is called as `depth(x, apply, real)`: `apply(state, step)` applies the block to all positions, steps count from
1, and `real` marks the positions that are not padding.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

Apply = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True)
class Pondered:
    """What has become of each position.

    output  [..., D]  what it hands on
    state   [..., D]  its state after the last step; since it halted, a copy
    steps   [...]     N, how often its state was revised; 0 for padding
    ponder  [...]     ρ = N + R, what there is to pay; 0 for padding, and where the depth is fixed
    """

    output: Float[Tensor, "*BT D"]
    state: Float[Tensor, "*BT D"]
    steps: Float[Tensor, "*BT"]
    ponder: Float[Tensor, "*BT"]


class FixedDepth(nn.Module):
    """T applications to every position; the output is the last state."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def forward(self, x: Float[Tensor, "*BT D"], apply: Apply, real: Bool[Tensor, "*BT"] | None = None) -> Pondered:
        """Apply the block to `x`, then to what it gives."""
        state = x
        for step in range(1, self.steps + 1):
            state = apply(state, step)
        # [..., D] -> [...]
        none = x.new_zeros(x.shape[:-1], dtype=torch.float32)
        steps = none + self.steps if real is None else none.masked_fill(real, self.steps)
        return Pondered(state, state, steps, none)


class AdaptiveDepth(nn.Module):
    """Adaptive computation time for every position by itself (Graves, 2016, section 2).

    With s^n the state after n applications, and ε the threshold,

        h^n = σ(W s^n + b)                      probability of halting
        N   = min{n : h^1 + ... + h^n ≥ 1 - ε}  but at most T
        R   = 1 - (h^1 + ... + h^(N-1))         remainder
        p^n = h^n for n < N,  p^N = R           weights, which sum to 1

    and the output is Σ_n p^n s^n. After N applications a position's state is copied from step to step until all have
    halted (Dehghani et al., 2018, section 2.3), so that the others may go on to attend to it. The code in that paper's
    appendix departs from these equations, which its text refers to: there h is of the state before an application, and
    each state is blended with the mean so far by weights that do not sum to 1.

    The halting arithmetic is in float32 or wider, whatever autocast says: bf16 is too coarse for a threshold.
    """

    def __init__(self, d_model: int, steps: int, threshold: float) -> None:
        super().__init__()
        self.steps = steps
        self.threshold = threshold
        self.halting = nn.Linear(d_model, 1)
        nn.init.xavier_uniform_(self.halting.weight)
        # tensor2tensor's: σ(1) = 0.73, so that at first most positions halt after two steps.
        nn.init.ones_(self.halting.bias)

    def forward(self, x: Float[Tensor, "*BT D"], apply: Apply, real: Bool[Tensor, "*BT"] | None = None) -> Pondered:
        """Apply the block until every position has halted; the steps left out would change nothing."""
        state = x
        # [..., D] -> [...]
        running = torch.ones(x.shape[:-1], dtype=torch.bool, device=x.device) if real is None else real
        none = torch.zeros(x.shape[:-1], dtype=self._wide(), device=x.device)
        # halted: h^1 + ... + h^(n-1)
        halted, steps, remainder, output = none, none, none, none.unsqueeze(-1)
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
        return Pondered(output.to(state.dtype), state, steps, steps + remainder)

    def probability(self, state: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT"]:
        """h = σ(W s + b) of each position."""
        wide, unit = self._wide(), self.halting
        with torch.autocast(state.device.type, enabled=False):
            # [..., D] -> [..., 1] -> [...]
            return F.linear(state.to(wide), unit.weight.to(wide), unit.bias.to(wide)).sigmoid().squeeze(-1)

    def _wide(self) -> torch.dtype:
        return torch.promote_types(self.halting.weight.dtype, torch.float32)
