"""Self-attention over the positions of a feature map (Zhang et al., "Self-Attention GANs", 2019, section 3)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import NO_MASK, AttentionCore
from dragoman.layers.spectral_norm import SpectralLinear

# The width of queries, keys and values is that of the feature map divided by this number (section 3).
REDUCTION = 8


class MapAttention(nn.Module):
    """y = γ·o + x, where o is the attention of every position of x to all positions (equations 1 to 3).

    In the paper's letters: query f = W_f x, key g = W_g x, value h = W_h x, and o = W_v(softmax(f gᵀ) h), without the
    factor 1/√d_k. γ is learned and starts at 0, so that the network is first one without attention.

    Args:
        channels: C, the width of the feature map; a multiple of 8.

    Example:
        >>> import torch
        >>> attention = MapAttention(16)
        >>> x = torch.randn(2, 16, 4, 4)
        >>> torch.equal(attention(x), x)
        True
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        assert channels % REDUCTION == 0, "the width of the feature map must be a multiple of 8"
        inner = channels // REDUCTION
        self.query = SpectralLinear(channels, inner, bias=False)
        self.key = SpectralLinear(channels, inner, bias=False)
        self.value = SpectralLinear(channels, inner, bias=False)
        self.output = SpectralLinear(inner, channels, bias=False)
        self.gamma = nn.Parameter(torch.zeros(()))
        self.core = AttentionCore(scale=1.0)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Add the attention of every position to all positions."""
        # [B, C, H, W] -> [B, C, H*W] -> [B, H*W, C]
        rows = x.flatten(2).transpose(1, 2)
        # 3 x [B, H*W, C/8] -> 3 x [B, 1, H*W, C/8]: a single head
        query, key, value = (project(rows).unsqueeze(1) for project in (self.query, self.key, self.value))
        # [B, 1, H*W, C/8] -> [B, H*W, C/8] -> [B, H*W, C] -> [B, C, H*W] -> [B, C, H, W]
        attended = self.output(self.core(query, key, value, NO_MASK).squeeze(1))
        return self.gamma * attended.transpose(1, 2).unflatten(2, x.shape[2:]) + x
