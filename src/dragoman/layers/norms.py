"""Normalisation, and its placement relative to a sub-layer (post-norm, pre-norm).

Every norm is called as `norm(x, real)`, where `real` is True for tokens and False for padding. Only batch normalisation
uses `real`, because it computes statistics over tokens.
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
        """Normalise each token by the mean and variance of its features."""
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(nn.RMSNorm):
    """Root mean square normalisation: layer normalisation without centring (Zhang and Sennrich, 2019, equation 4)."""

    def forward(self, x: Float[Tensor, "*BT D"], real: Bool[Tensor, "*BT"] | None = None) -> Float[Tensor, "*BT D"]:
        """Divide each token by the root mean square of its features."""
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class TokenBatchNorm(nn.BatchNorm1d):
    """Batch normalisation over the real tokens of a batch (Ioffe and Szegedy, 2015).

    Provided for comparison with layer normalisation. In training, the result for a token depends on the other sentences
    of the batch and on later target tokens.
    """

    def forward(self, x: Float[Tensor, "*BT D"], real: Bool[Tensor, "*BT"] | None = None) -> Float[Tensor, "*BT D"]:
        """Normalise each feature by its mean and variance over the tokens; the result at padding is zeros."""
        if real is None:
            # [..., D] -> [tokens, D] -> [..., D]
            return super().forward(x.flatten(0, -2)).view_as(x)
        # [B, T, D] -> [tokens, D]
        normalised = super().forward(x[real])
        return torch.zeros_like(x, dtype=normalised.dtype).masked_scatter(real.unsqueeze(-1), normalised)


class Residual(nn.Module):
    """Base class of residual connections: a norm and a dropout, whose placement the subclasses define."""

    def __init__(self, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.norm = norm
        self.dropout = Dropout(dropout)


class PostNorm(Residual):
    """LayerNorm(x + Dropout(Sublayer(x))), as in Vaswani et al. (2017), sections 3.1 and 5.4."""

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        sublayer: Sublayer,
        real: Bool[Tensor, "*BT"] | None = None,
    ) -> Float[Tensor, "*BT D"]:
        """Apply `sublayer` to `x`, add the residual, and normalise the sum."""
        return self.norm(x + self.dropout(sublayer(x)), real)


class PreNorm(Residual):
    """x + Dropout(Sublayer(LayerNorm(x))): the residual path has no normalisation (Xiong et al., 2020)."""

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        sublayer: Sublayer,
        real: Bool[Tensor, "*BT"] | None = None,
    ) -> Float[Tensor, "*BT D"]:
        """Normalise `x`, apply `sublayer`, and add the residual."""
        return x + self.dropout(sublayer(self.norm(x, real)))
