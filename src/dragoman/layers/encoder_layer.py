"""An encoder layer of the Transformer (Vaswani et al. 2017, figure 1, left)."""

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionMask, MultiHeadAttention
from dragoman.layers.feed_forward import FeedForward, GatedFeedForward


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each wrapped in a residual connection (`PostNorm` or `PreNorm`)."""

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        feed_forward: FeedForward | GatedFeedForward,
        attention_residual: nn.Module,
        feed_forward_residual: nn.Module,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.attention_residual = attention_residual
        self.feed_forward_residual = feed_forward_residual

    def forward(self, x: Float[Tensor, "*BS D"], mask: AttentionMask) -> Float[Tensor, "*BS D"]:
        """Transform all source positions; `mask` contains the positions that each may attend to."""
        x = self.attention_residual(x, lambda y: self.self_attention(y, y, mask), mask.real)
        return self.feed_forward_residual(x, self.feed_forward, mask.real)
