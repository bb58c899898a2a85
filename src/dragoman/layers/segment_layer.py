"""A layer of Transformer-XL: attention to a memory of earlier segments and to the segment (Dai et al. 2019)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import NO_MASK, AttentionMask
from dragoman.layers.key_value_cache import KeyValueCache
from dragoman.layers.relative_attention import RelativeAttention


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
    ) -> tuple[Float[Tensor, "B T D"], KeyValueCache]:
        """Transform T further positions; each attends to itself and to the R - 1 positions before it.

        The cache contains keys and values, which are projections of the hidden states that the paper caches: while a
        text is read, the weights do not change, and the projections are computed once.

        Args:
            x: the input at these positions.
            cache: the cache of the positions before them.
            encodings: the result of `RelativeAttention.encodings` for R distances.

        Returns:
            The output, and the cache of the last R - 1 positions.
        """
        span = encodings.shape[1]

        def attend(y: Tensor) -> Tensor:
            nonlocal cache
            cache = cache.extended(*self.self_attention.project_memory(y))
            T, S = y.shape[1], cache.key.shape[2]
            mask = NO_MASK
            if T > 1:
                # True at the distances 0 to R - 1; query t is at position S - T + t.
                band = torch.ones(T, S, dtype=torch.bool, device=y.device).tril(S - T).triu(S - T - span + 1)
                # [T, S] -> [1, T, S]
                mask = AttentionMask(allowed=band.unsqueeze(0))
            # Distances from S on do not occur.
            near = encodings[:, max(span - S, 0) :]
            return self.self_attention.attend_within(y, cache.key, cache.value, mask, near)

        x = self.attention_residual(x, attend)
        return self.feed_forward_residual(x, self.feed_forward), cache.last(span - 1)
