"""The position-wise feed-forward network and its gated variants."""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "geglu": F.gelu,
    "swiglu": F.silu,
}
GATED = ("geglu", "swiglu")


class FeedForward(nn.Module):
    """FFN(x) = max(0, xW_1 + b_1)W_2 + b_2 (Vaswani et al. 2017, equation 2), optionally with GELU instead of ReLU."""

    def __init__(self, d_model: int, d_ff: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        """Transform every position independently of the others."""
        # [B, T, D] -> [B, T, d_ff] -> [B, T, D]
        return self.outer(self.dropout(self.activation(self.inner(x))))


class GatedFeedForward(nn.Module):
    """FFN(x) = (act(xW) ⊗ xV)W_2, without biases (Shazeer, "GLU Variants", 2020, equation 6)."""

    def __init__(self, d_model: int, d_ff: int, *, activation: str, dropout: float) -> None:
        super().__init__()
        self.gate = nn.Linear(d_model, d_ff, bias=False)
        self.inner = nn.Linear(d_model, d_ff, bias=False)
        self.outer = nn.Linear(d_ff, d_model, bias=False)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout)

    def forward(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        """Transform every position independently of the others."""
        # 2 x [B, T, D] -> [B, T, d_ff] -> [B, T, D]
        return self.outer(self.dropout(self.activation(self.gate(x)) * self.inner(x)))
