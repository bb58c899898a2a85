"""One decoder layer (Vaswani et al. 2017, figure 1, right), over all positions or one at a time."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import CAUSAL_MASK, NO_MASK, AttentionMask, MultiHeadAttention
from dragoman.packing import Packing


@dataclass(frozen=True)
class LayerCache:
    """What one decoder layer remembers between steps.

    self_key, self_value      [B, H, t, K], [B, H, t, Kv]  the target positions so far
    memory_key, memory_value  [B, H, S, K], [B, H, S, Kv]  the source, projected once
    """

    self_key: Float[Tensor, "B H t K"]
    self_value: Float[Tensor, "B H t Kv"]
    memory_key: Float[Tensor, "B H S K"]
    memory_value: Float[Tensor, "B H S Kv"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "LayerCache":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return LayerCache(
            self.self_key[rows],
            self.self_value[rows],
            self.memory_key[rows],
            self.memory_value[rows],
        )


class DecoderLayer(nn.Module):
    """Causal self-attention, encoder-decoder attention, feed-forward, each in its residual."""

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
        memory_mask: AttentionMask,
        real: Bool[Tensor, "*BT"] | None,
        packing: Packing | None = None,
        memory_packing: Packing | None = None,
    ) -> Float[Tensor, "*BT D"]:
        """All target positions at once. Padding stands at the end, so the causal mask hides it.

        `x` is [B, T, D], or rows [N, D] with their packing; so are `real` and `memory`.
        """

        def attend_to_past(y: Tensor) -> Tensor:
            return self.self_attention(y, y, CAUSAL_MASK, packing, packing)

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.memory_attention(y, memory, memory_mask, packing, memory_packing)

        x = self.self_residual(x, attend_to_past, real)
        x = self.memory_residual(x, attend_to_memory, real)
        return self.feed_forward_residual(x, self.feed_forward, real)

    def start(self, memory: Float[Tensor, "B S D"]) -> LayerCache:
        """The cache before the first step."""
        memory_key, memory_value = self.memory_attention.project_memory(memory)
        return LayerCache(memory_key[:, :, :0], memory_value[:, :, :0], memory_key, memory_value)

    def step(
        self,
        x: Float[Tensor, "B 1 D"],
        cache: LayerCache,
        memory_mask: AttentionMask,
        position: int,
    ) -> tuple[Float[Tensor, "B 1 D"], LayerCache]:
        """One target position: the same numbers as `forward` gives for it."""

        def attend_to_past(y: Tensor) -> Tensor:
            nonlocal cache
            key, value = self.self_attention.project_memory(y, offset=position)
            cache = LayerCache(
                # [B, H, t, K] and [B, H, 1, K] -> [B, H, t+1, K]
                torch.cat((cache.self_key, key), dim=2),
                torch.cat((cache.self_value, value), dim=2),
                cache.memory_key,
                cache.memory_value,
            )
            return self.self_attention.attend(y, cache.self_key, cache.self_value, NO_MASK, offset=position)

        def attend_to_memory(y: Tensor) -> Tensor:
            return self.memory_attention.attend(y, cache.memory_key, cache.memory_value, memory_mask)

        x = self.self_residual(x, attend_to_past)
        x = self.memory_residual(x, attend_to_memory)
        return self.feed_forward_residual(x, self.feed_forward), cache
