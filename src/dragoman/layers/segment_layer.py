"""A layer of Transformer-XL: attention to a memory of earlier segments and to the segment (Dai et al. 2019)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import NO_MASK, AttentionMask
from dragoman.layers.key_value_cache import KeyValueCache
from dragoman.layers.relative_attention import RelativeAttention


def last_positions(queries: int, keys: int, positions: int, device: torch.device) -> AttentionMask:
    """Return a mask that lets every position attend to itself and to the `positions` - 1 positions before it.

    Args:
        queries: T, number of queries, which are at the last T positions of the keys.
        keys: S, number of keys.
        positions: R.
        device: device of the mask.
    """
    if queries == 1 and keys <= positions:
        return NO_MASK
    earlier = keys - queries
    band = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(earlier).triu(earlier - positions + 1)
    # [T, S] -> [1, T, S]
    return AttentionMask(allowed=band.unsqueeze(0))


class SegmentLayer(nn.Module):
    """Self-attention with a memory and feed-forward network, each wrapped in a residual connection.

    The residual connection is a `PostNorm` or a `PreNorm`. The memory consists of what the attention read at earlier
    positions: the states of the layer below, normalised in the case of pre-norm.
    """

    def __init__(
        self,
        self_attention: RelativeAttention,
        feed_forward: nn.Module,
        attention_residual: nn.Module,
        feed_forward_residual: nn.Module,
    ) -> None:
        super().__init__()
        self.self_attention = self_attention
        self.feed_forward = feed_forward
        self.attention_residual = attention_residual
        self.feed_forward_residual = feed_forward_residual

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B M D"] | None, mask: AttentionMask
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B S D"]]:
        """Transform all positions of a segment at once.

        Args:
            x: the segment.
            memory: what the attention read in earlier segments; None before the second segment. No gradient flows into
                it, SG(h) in the paper, but the projections of its keys and values are trained.
            mask: the positions of memory and segment that each position of the segment may attend to.

        Returns:
            The output, and what the attention read in memory and segment, without gradient.
        """
        context = x

        def attend(y: Tensor) -> Tensor:
            nonlocal context
            # [B, M, D] and [B, T, D] -> [B, S, D]
            context = y if memory is None else torch.cat((memory.detach(), y), dim=1)
            return self.self_attention(y, context, mask)

        x = self.attention_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward), context.detach()

    def start(self, x: Float[Tensor, "B 0 D"]) -> KeyValueCache:
        """Return the cache before the first position; `x` is an empty input, which determines rows, type and device."""
        return KeyValueCache(*self.self_attention.project_memory(x))

    def read(
        self,
        x: Float[Tensor, "B T D"],
        cache: KeyValueCache,
        encodings: Float[Tensor, "H R K"],
        mask: AttentionMask,
    ) -> tuple[Float[Tensor, "B T D"], KeyValueCache]:
        """Transform T further positions; each attends to itself and to the R - 1 positions before it.

        The cache contains keys and values, which are projections of the hidden states that the paper caches: while a
        text is read, the weights do not change, and the projections are computed once.

        Args:
            x: the input at these positions.
            cache: the cache of the positions before them.
            encodings: the result of `RelativeAttention.encodings` for R distances.
            mask: the result of `last_positions`.

        Returns:
            The output, and the cache of the last R - 1 positions.
        """
        positions = encodings.shape[1]

        def attend(y: Tensor) -> Tensor:
            nonlocal cache
            cache = cache.extended(*self.self_attention.project_memory(y))
            # Distances from S on do not occur.
            near = encodings[:, max(positions - cache.key.shape[2], 0) :]
            return self.self_attention.attend_within(y, cache.key, cache.value, mask, near)

        x = self.attention_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward), cache.last(positions - 1)
