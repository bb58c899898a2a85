"""Local attention in blocks (Liu et al., "Generating Wikipedia by Summarizing Long Sequences", 2018, section 4.2).

A text is divided into blocks of equal length, and each token attends within its own block. Time and memory are linear
in the length of the text: T tokens in blocks of b need T·b products instead of T².
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.attention import (
    AttentionCore,
    AttentionMask,
    Rotation,
    scaled_dot_product_attention,
)
from dragoman.layers.causal_attention import AttentionCache, PatternAttention


@dataclass(frozen=True)
class LocalMask(AttentionMask):
    """The keys that each query may attend to: only those in its own block, and only those of the other fields.

    `naive_attention` with this mask is the formula; `local_attention` computes the same in linear memory.

    Attributes:
        block: number of tokens in a block; queries and keys are at positions 0, 1, ...

    Example:
        >>> import torch
        >>> LocalMask(causal=True, block=2).dense(3, 3, torch.device("cpu")).int()
        tensor([[[1, 0, 0],
                 [1, 1, 0],
                 [0, 0, 1]]], dtype=torch.int32)
    """

    block: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.causal, "local attention is causal, which also excludes the padding of the last block"

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "B T S"]:
        """See `AttentionMask.dense`."""
        block_of_query, block_of_key = (torch.arange(count, device=device) // self.block for count in (queries, keys))
        # [S] == [T, 1] -> [T, S]
        return super().dense(queries, keys, device) & (block_of_key == block_of_query.unsqueeze(1))


def local_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H T K"],
    value: Float[Tensor, "B H T Kv"],
    mask: LocalMask,
    dropout: float = 0.0,
    *,
    scale: float | None = None,
) -> Float[Tensor, "B H T Kv"]:
    """Return self-attention within blocks; each block is a row of a batch of `scaled_dot_product_attention`.

    Equal to `naive_attention` with the same mask.

    Example:
        >>> import torch
        >>> from dragoman.attention import naive_attention
        >>> x = torch.randn(1, 2, 10, 8)
        >>> mask = LocalMask(causal=True, block=4)
        >>> torch.allclose(local_attention(x, x, x, mask), naive_attention(x, x, x, mask)[0], atol=1e-5)
        True
    """
    B, _, T, _ = query.shape
    block = max(1, min(mask.block, T))
    blocks = -(-T // block)
    padding = blocks * block - T

    def split(x: Float[Tensor, "B H T K"]) -> Float[Tensor, "BN H b K"]:
        # [B, H, T, K] -> [B, H, N*b, K] -> [B, H, N, b, K] -> [B, N, H, b, K] -> [B*N, H, b, K]
        return F.pad(x, (0, 0, 0, padding)).unflatten(2, (blocks, block)).transpose(1, 2).flatten(0, 1)

    inner = AttentionMask(_restriction_in_blocks(mask, B, T, blocks, block), causal=True)
    output = scaled_dot_product_attention(split(query), split(key), split(value), inner, dropout, scale=scale)
    # [B*N, H, b, Kv] -> [B, N, H, b, Kv] -> [B, H, N, b, Kv] -> [B, H, N*b, Kv] -> [B, H, T, Kv]
    return output.unflatten(0, (B, blocks)).transpose(1, 2).flatten(2, 3)[:, :, :T]


def _restriction_in_blocks(
    mask: LocalMask, rows: int, length: int, blocks: int, block: int
) -> Bool[Tensor, "BN _ b"] | None:
    """Return the blocks on the diagonal of `mask.restriction`, without making all of it; None if all is allowed."""
    padding = blocks * block - length
    same = None
    if mask.documents is not None:
        # [B, T] -> [B, N*b] -> [B*N, b]
        documents = F.pad(mask.documents, (0, padding)).unflatten(1, (blocks, block)).flatten(0, 1)
        # [B*N, b, 1] == [B*N, 1, b] -> [B*N, b, b]
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
    if mask.allowed is None:
        return same
    # [B or 1, T or 1, T] -> [B, T or 1, N, b]
    allowed = F.pad(mask.allowed, (0, padding)).unflatten(2, (blocks, block)).expand(rows, -1, -1, -1)
    if allowed.shape[1] == 1:
        # [B, 1, N, b] -> [B, N, 1, b] -> [B*N, 1, b]
        allowed = allowed.transpose(1, 2).flatten(0, 1)
    else:
        # [B, T, N, b] -> [B, N, b, N, b] -> [B, b, b, N] -> [B, N, b, b] -> [B*N, b, b]
        split = F.pad(allowed, (0, 0, 0, 0, 0, padding)).unflatten(1, (blocks, block))
        allowed = split.diagonal(dim1=1, dim2=3).movedim(-1, 1).flatten(0, 1)
    return allowed if same is None else allowed & same


class LocalCore(AttentionCore):
    """`AttentionCore` that computes attention with a `LocalMask` block by block."""

    def forward(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
        dropout: float = 0.0,
        bias: Float[Tensor, "B H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        """Return the outputs of the heads, before concatenation."""
        if isinstance(mask, LocalMask):
            assert bias is None, "local attention has no term for each pair of positions"
            return local_attention(query, key, value, mask, dropout, scale=self.scale)
        return super().forward(query, key, value, mask, dropout, bias)


class LocalAttention(PatternAttention):
    """Multi-head self-attention within blocks; in `read`, the cache contains the tokens of the last block only.

    Args:
        d_model: width of input and output.
        heads: number of heads; divides d_model.
        block: number of tokens in a block.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        scale: factor of QKᵀ; None for 1/√d_k.
        dropout: probability of dropping an attention weight in training.
        bias: True if the four projections have biases.
        rotation: rotates queries and keys by their positions.

    Example:
        >>> import torch
        >>> attention = LocalAttention(d_model=16, heads=4, block=4)
        >>> text = torch.randn(2, 10, 16)
        >>> attention(text, text, AttentionMask(causal=True)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        block: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotation: Rotation | None = None,
    ) -> None:
        super().__init__(d_model, heads, d_k=d_k, d_v=d_v, scale=scale, dropout=dropout, bias=bias, rotation=rotation)
        self.block = block
        self.core = LocalCore(scale)

    def pattern(self, mask: AttentionMask) -> LocalMask:
        """See `PatternAttention.pattern`."""
        return LocalMask(mask.allowed, mask.causal, mask.queries, mask.keys, mask.documents, block=self.block)

    def _reaches(self, positions: Int[Tensor, "B T"], ends: Int[Tensor, "B n"]) -> Bool[Tensor, "B T n"]:
        # [B, 1, n] == [B, T, 1] -> [B, T, n]
        same_block = ends.unsqueeze(1) // self.block == positions.unsqueeze(2) // self.block
        return super()._reaches(positions, ends) & same_block

    def _pruned(self, cache: AttentionCache, position: Int[Tensor, " B"]) -> AttentionCache:
        # A key remains if its block has not ended in some text.
        return cache.columns(cache.ends // self.block == (position // self.block).unsqueeze(1))
