"""A layer of a decoder-only Transformer, for all positions or for further ones."""

from jaxtyping import Float
from torch import Tensor

from dragoman.attention import CAUSAL_MASK
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.key_value_cache import KeyValueCache


class CausalLayer(EncoderLayer):
    """An encoder layer under a causal mask: causal self-attention and feed-forward network.

    `forward` transforms all positions at once, with the mask that it is given.
    """

    def start(self, x: Float[Tensor, "B 0 D"]) -> KeyValueCache:
        """Return the cache before the first position; `x` is an empty input, which determines rows, type and device."""
        return KeyValueCache(*self.self_attention.project_memory(x))

    def read(
        self, x: Float[Tensor, "B T D"], cache: KeyValueCache, position: int
    ) -> tuple[Float[Tensor, "B T D"], KeyValueCache]:
        """Transform T further positions; the result equals that of `forward` at these positions.

        Args:
            x: the input at these positions.
            cache: the cache before these positions.
            position: index of the first of these positions in the text.

        Returns:
            The output, and the cache that includes these positions.
        """

        def attend_to_past(y: Tensor) -> Tensor:
            nonlocal cache
            cache = cache.extended(*self.self_attention.project_memory(y, offset=position))
            return self.self_attention.attend(y, cache.key, cache.value, CAUSAL_MASK, offset=position)

        x = self.attention_residual(x, attend_to_past)
        return self.feed_forward_residual(x, self.feed_forward), cache
