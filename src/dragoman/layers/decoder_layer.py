"""A decoder layer of the Transformer (Vaswani et al. 2017, figure 1, right), for all positions or one at a time."""

from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.attention import NO_MASK, AttentionMask, MultiHeadAttention
from dragoman.layers.key_value_cache import KeyValueCache


@dataclass(frozen=True)
class LayerCache:
    """Key-value cache of a decoder layer.

    Attributes:
        past: keys and values of the target positions so far.
        memory: keys and values of the source, computed once.
    """

    past: KeyValueCache
    memory: KeyValueCache

    def reorder(self, rows: Int[Tensor, " N"]) -> "LayerCache":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return LayerCache(self.past.reorder(rows), self.memory.reorder(rows))


class DecoderLayer(nn.Module):
    """Causal self-attention, encoder-decoder attention and feed-forward network.

    Each sub-layer is wrapped in a residual connection (`PostNorm` or `PreNorm`). Source: Vaswani et al. (2017),
    section 3.1.
    """

    def __init__(
        self,
        self_attention: MultiHeadAttention,
        memory_attention: MultiHeadAttention,
        feed_forward: nn.Module,
        self_residual: nn.Module,
        memory_residual: nn.Module,
        feed_forward_residual: nn.Module,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.memory_attention = memory_attention
        self.feed_forward = feed_forward
        self.self_residual = self_residual
        self.memory_residual = memory_residual
        self.feed_forward_residual = feed_forward_residual

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        memory: Float[Tensor, "*BS D"],
        mask: AttentionMask,
        memory_mask: AttentionMask,
    ) -> Float[Tensor, "*BT D"]:
        """Transform all target positions at once.

        Args:
            x: the target, [B, T, D] or rows.
            memory: the encoded source, [B, S, D] or rows.
            mask: causal mask; it also hides the padding, which is at the end.
            memory_mask: the source positions that may be attended to.
        """
        x = self.self_residual(x, lambda y: self.self_attention(y, y, mask), mask.real)
        x = self.memory_residual(x, lambda y: self.memory_attention(y, memory, memory_mask), mask.real)
        return self.feed_forward_residual(x, self.feed_forward, mask.real)

    def start(self, memory: Float[Tensor, "B S D"]) -> LayerCache:
        """Return the cache before the first step: keys and values of the source, and no target position."""
        source = KeyValueCache(*self.memory_attention.project_memory(memory))
        past = KeyValueCache(*self.self_attention.project_memory(memory[:, :0]))
        return LayerCache(past, source)

    def step(
        self,
        x: Float[Tensor, "B 1 D"],
        cache: LayerCache,
        memory_mask: AttentionMask,
        position: int,
    ) -> tuple[Float[Tensor, "B 1 D"], LayerCache]:
        """Transform one target position; the result equals that of `forward` at this position.

        Args:
            x: the input at this position.
            cache: the cache before this position.
            memory_mask: the source positions that may be attended to.
            position: index of this position in the target.

        Returns:
            The output, and the cache that includes this position.
        """

        def attend_to_past(y: Tensor) -> Tensor:
            nonlocal cache
            key, value = self.self_attention.project_memory(y, offset=position)
            cache = replace(cache, past=cache.past.extended(key, value))
            return self.self_attention.attend(y, cache.past.key, cache.past.value, NO_MASK, offset=position)

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.memory_attention.attend(y, cache.memory.key, cache.memory.value, memory_mask)

        x = self.self_residual(x, attend_to_past)
        x = self.memory_residual(x, attend_to_memory)
        return self.feed_forward_residual(x, self.feed_forward), cache
