"""Normalisation, and where it stands around a sub-layer (post-norm, pre-norm).

Every norm is called as `norm(x, real)`: `real` marks the tokens that are not padding. Only batch
normalisation needs it, as its statistics run over tokens.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout

Sublayer = Callable[[Tensor], Tensor]


class LayerNorm(nn.LayerNorm):
    """Layer normalisation over the features of a token (Ba et al., 2016)."""

    def forward(self, x: Float[Tensor, "*BT D"], real: Bool[Tensor, "*BT"] | None = None) -> Float[Tensor, "*BT D"]:
        """Normalise each token by its own mean and variance."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """Root mean square normalisation: layer norm without centring (Zhang and Sennrich, 2019)."""

    def forward(self, x: Float[Tensor, "*BT D"], real: Bool[Tensor, "*BT"] | None = None) -> Float[Tensor, "*BT D"]:
        """Divide each token by the root mean square of its features."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the real tokens of a batch (Ioffe and Szegedy, 2015).

    Kept for the lectures' comparison: the statistics of a token depend on the other sentences, and in
    training on later target tokens.
    """

    def forward(self, x: Float[Tensor, "*BT D"], real: Bool[Tensor, "*BT"] | None = None) -> Float[Tensor, "*BT D"]:
        """Normalise each feature by its mean and variance over the tokens; padding becomes zeros."""
        if real is None:
            # [..., D] -> [tokens, D] -> [..., D]
            return super().forward(x.flatten(0, -2)).view_as(x)
        # [B, T, D] -> [tokens, D]
        normalised = super().forward(x[real])
        return torch.zeros_like(x, dtype=normalised.dtype).masked_scatter(real.unsqueeze(-1), normalised)


class Residual(nn.Module):
    """A norm and a dropout around a sub-layer; subclasses say where each is applied."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)


class PostNorm(Residual):
    """LayerNorm(x + Dropout(Sublayer(x))): the paper's arrangement (section 3.1)."""

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        sublayer: Sublayer,
        real: Bool[Tensor, "*BT"] | None = None,
    ) -> Float[Tensor, "*BT D"]:
        """Run `sublayer` on `x`, with the residual around it."""
        return self.norm(x + self.dropout(sublayer(x)), real)


class PreNorm(Residual):
    """x + Dropout(Sublayer(LayerNorm(x))): the residual path stays free (Xiong et al., 2020)."""

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        sublayer: Sublayer,
        real: Bool[Tensor, "*BT"] | None = None,
    ) -> Float[Tensor, "*BT D"]:
        """Run `sublayer` on the normalised `x`, with the residual around both."""
        return x + self.dropout(sublayer(self.norm(x, real)))
