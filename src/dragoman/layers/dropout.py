"""Dropout with fast random numbers on the CPU."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Dropout(nn.Module):
    """Set each element to 0 with probability p and scale the others by 1 / (1 - p) (Srivastava et al., 2014).

    On the CPU, torch draws one random number for each element on a single core, which takes a tenth of a training step.
    This module draws 64 random bits for four elements instead; p is rounded to a multiple of 2^-16.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """Drop elements in training; return `x` unchanged in evaluation."""
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        draws = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
        # random_(low, None) draws all 64 bits; each int64 is viewed as four int16.
        bits = draws.random_(-(2**63), None).view(torch.int16)[: x.numel()].view(x.shape)
        kept = bits >= round(self.p * 2**16) - 2**15
        return x * kept.to(x.dtype).mul_(1 / (1 - self.p))

    def extra_repr(self) -> str:
        """Return the text that torch shows for this module in a printed model."""
        return f"p={self.p}"
