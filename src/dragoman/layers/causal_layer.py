"""A layer of a decoder-only Transformer, for all positions or for further ones."""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.layers.causal_attention import AttentionCache, CausalAttention
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.feed_forward import FeedForward, GatedFeedForward


class CausalLayer(EncoderLayer):
    """An encoder layer under a causal mask: causal self-attention and feed-forward network.

    `forward` transforms all positions at once, with the mask that it is given.
    """

    self_attention: CausalAttention

    def __init__(
        self,
        self_attention: CausalAttention,
        feed_forward: FeedForward | GatedFeedForward,
        attention_residual: nn.Module,
        feed_forward_residual: nn.Module,
    ) -> None:
        super().__init__(self_attention, feed_forward, attention_residual, feed_forward_residual)

    def start(self, x: Float[Tensor, "B 0 D"]) -> AttentionCache:
        """Return the cache before the first position; `x` is an empty input, which determines rows, type and device."""
        return self.self_attention.start(x)

    def read(
        self,
        x: Float[Tensor, "B T D"],
        cache: AttentionCache,
        position: int | Int[Tensor, " B"],
        real: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionCache]:
        """Transform T further positions; the result equals that of `forward` at these positions.

        Args:
            x: the input at these positions.
            cache: the cache before these positions.
            position: index of the first of these positions, in all texts or in each.
            real: True for tokens, False for padding, which is at the end; None if there is no padding.

        Returns:
            The output, and the cache that includes these positions.
        """

        def attend_to_past(y: Tensor) -> Tensor:
            nonlocal cache
            output, cache = self.self_attention.read(y, cache, position, real)
            return output

        x = self.attention_residual(x, attend_to_past)
        return self.feed_forward_residual(x, self.feed_forward), cache
