"""Memory-compressed attention (Liu et al., "Generating Wikipedia by Summarizing Long Sequences", 2018, section 4.2).

A convolution, whose stride is as large as its kernel is wide, makes one key and one value of c consecutive ones. The
products of T queries with T/c keys take a c-th of the time of full attention, and each query reaches all of the text.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import (
    CAUSAL_MASK,
    AttentionCore,
    AttentionMask,
    Rotation,
    scaled_dot_product_attention,
)
from dragoman.layers.causal_attention import NEVER, AttentionCache, PatternAttention


@dataclass(frozen=True)
class CompressedMask(AttentionMask):
    """The compressed keys that each query may attend to.

    Key j consists of the tokens jc, ..., jc + c - 1, and query t may attend to it only if jc + c - 1 <= t. The first
    c - 1 queries therefore attend to nothing, and their output is zeros. `naive_attention` with this mask is the
    formula; `compressed_attention` computes the same without a mask tensor.

    Attributes:
        allowed: [B or 1, T or 1, n], in addition, True where a query may attend to a compressed key.
        documents: [B, T], in addition: all tokens of the window must belong to the document of the query.
        compression: c.

    Example:
        >>> import torch
        >>> CompressedMask(causal=True, compression=2).dense(5, 2, torch.device("cpu")).int()
        tensor([[[0, 0],
                 [1, 0],
                 [1, 0],
                 [1, 1],
                 [1, 1]]], dtype=torch.int32)
    """

    compression: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.causal, "compressed attention is causal"

    @cached_property
    def restriction(self) -> Bool[Tensor, "B T n"] | None:
        """See `AttentionMask.restriction`."""
        if self.documents is None:
            return self.allowed
        n = self.documents.shape[1] // self.compression
        # [B, T] -> [B, n, c]; documents do not decrease, so that the first and the last token determine a window
        window = self.documents[:, : n * self.compression].unflatten(1, (n, self.compression))
        of_query = self.documents.unsqueeze(2)
        # [B, T, 1] == [B, 1, n] -> [B, T, n]
        same = (of_query == window[:, None, :, 0]) & (of_query == window[:, None, :, -1])
        return same if self.allowed is None else same & self.allowed

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "B T S"]:
        """See `AttentionMask.dense`."""
        end = torch.arange(1, keys + 1, device=device) * self.compression - 1
        # [n] <= [T, 1] -> [T, n] -> [1, T, n]
        complete = (end <= torch.arange(queries, device=device).unsqueeze(1)).unsqueeze(0)
        return complete if self.restriction is None else complete & self.restriction


def compressed_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H n K"],
    value: Float[Tensor, "B H n Kv"],
    mask: CompressedMask,
    dropout: float = 0.0,
    *,
    scale: float | None = None,
) -> Float[Tensor, "B H T Kv"]:
    """Return causal attention to compressed keys, without a mask tensor.

    The queries jc + c - 1 + p, j = 0, 1, ..., attend to the keys 0..j. For each of the c values of p this is ordinary
    causal attention of n queries to n keys; the c parts are rows of a batch of `scaled_dot_product_attention`. Equal
    to `naive_attention` with the same mask.

    Args:
        query: queries at positions 0, 1, ...
        key: the T // c compressed keys.
        value: the T // c compressed values.
        mask: the compressed keys that each query may attend to.
        dropout: probability of dropping a weight; pass 0 outside training.
        scale: factor of the products of queries and keys; None for 1/√d_k.

    Example:
        >>> import torch
        >>> from dragoman.attention import naive_attention
        >>> query, key, value = torch.randn(1, 2, 10, 8), torch.randn(1, 2, 3, 8), torch.randn(1, 2, 3, 8)
        >>> mask = CompressedMask(causal=True, compression=3)
        >>> expected, _ = naive_attention(query, key, value, mask)
        >>> torch.allclose(compressed_attention(query, key, value, mask), expected, atol=1e-5)
        True
    """
    B, _, T, _ = query.shape
    c, n = mask.compression, key.shape[2]
    assert n == T // c, "compressed attention needs one key for each window of the queries"
    if n == 0:
        # No window is complete; without keys the output is zeros.
        return scaled_dot_product_attention(query, key, value)

    def split(x: Tensor, dim: int) -> Tensor:
        # Without the c - 1 queries that attend to nothing: [..., T, ...] -> [..., n*c, ...] -> [..., n, c, ...]
        x = x.narrow(dim, c - 1, T - c + 1)
        padding = [0, 0] * (x.dim() - 1 - dim) + [0, n * c - (T - c + 1)]
        return F.pad(x, padding).unflatten(dim, (n, c))

    def repeat(x: Float[Tensor, "B H n K"]) -> Float[Tensor, "Bc H n K"]:
        # [B, H, n, K] -> [B, c, H, n, K] -> [B*c, H, n, K]
        return x.unsqueeze(1).expand(-1, c, -1, -1, -1).flatten(0, 1)

    allowed = None
    if mask.restriction is not None and mask.restriction.shape[1] == 1:
        # [B or 1, 1, n] -> [B, c, 1, n] -> [B*c, 1, n]
        allowed = mask.restriction.unsqueeze(1).expand(B, c, -1, -1).flatten(0, 1)
    elif mask.restriction is not None:
        # [B or 1, T, n] -> [B, n, c, n] -> [B, c, n, n] -> [B*c, n, n]
        allowed = split(mask.restriction.expand(B, -1, -1), 1).transpose(1, 2).flatten(0, 1)
    # [B, H, T, K] -> [B, H, n, c, K] -> [B, c, H, n, K] -> [B*c, H, n, K]
    parts = split(query, 2).permute(0, 3, 1, 2, 4).flatten(0, 1)
    output = scaled_dot_product_attention(
        parts, repeat(key), repeat(value), AttentionMask(allowed, causal=True), dropout, scale=scale
    )
    # [B*c, H, n, Kv] -> [B, c, H, n, Kv] -> [B, H, n, c, Kv] -> [B, H, n*c, Kv] -> [B, H, T - c + 1, Kv]
    output = output.unflatten(0, (B, c)).permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, : T - c + 1]
    return F.pad(output, (0, 0, c - 1, 0))


class CompressedCore(AttentionCore):
    """`AttentionCore` that computes attention with a `CompressedMask` without a mask tensor."""

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
        if isinstance(mask, CompressedMask):
            assert bias is None, "compressed attention has no term for each pair of positions"
            return compressed_attention(query, key, value, mask, dropout, scale=self.scale)
        return super().forward(query, key, value, mask, dropout, bias)


@dataclass(frozen=True)
class CompressedCache(AttentionCache):
    """Cache of a compressed attention.

    Attributes:
        last_keys: [B, c-1, HK], the projected keys of the last tokens, of which the next compressed key is made; zeros
            before the first token.
        last_values: [B, c-1, D], the projected values of the last tokens.
    """

    last_keys: Float[Tensor, "B w HK"]
    last_values: Float[Tensor, "B w HKv"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "CompressedCache":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(
            self,
            key=self.key[rows],
            value=self.value[rows],
            ends=self.ends[rows],
            last_keys=self.last_keys[rows],
            last_values=self.last_values[rows],
        )


class WindowConvolution(nn.Module):
    """A convolution whose stride is the width of its kernel, as a matrix product; at first, the mean of each window.

    Args:
        width: features of input and output.
        window: c, width and stride of the kernel.
    """

    def __init__(self, width: int, window: int) -> None:
        super().__init__()
        # c x [W, W] -> [W, c*W]
        self.weight = nn.Parameter(torch.eye(width).repeat(1, window) / window)

    def forward(self, windows: Float[Tensor, "B n c W"]) -> Float[Tensor, "B n W"]:
        """Return one vector for each window."""
        # [B, n, c, W] -> [B, n, c*W] -> [B, n, W]
        return F.linear(windows.flatten(2), self.weight)


class CompressedAttention(PatternAttention):
    """Multi-head self-attention to compressed keys and values.

    Keys and values are projected, then convolved over all heads. A window is at the position of its last token.

    Args:
        d_model: width of input and output.
        heads: number of heads; divides d_model.
        compression: c, the width and stride of the convolutions.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        scale: factor of QKᵀ; None for 1/√d_k.
        dropout: probability of dropping an attention weight in training.
        bias: True if the four projections have biases; the convolutions have none.
        rotation: rotates queries and keys by their positions.

    Example:
        >>> import torch
        >>> attention = CompressedAttention(d_model=16, heads=4, compression=3)
        >>> text = torch.randn(2, 10, 16)
        >>> attention(text, text, AttentionMask(causal=True)).shape
        torch.Size([2, 10, 16])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        compression: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotation: Rotation | None = None,
    ) -> None:
        super().__init__(d_model, heads, d_k=d_k, d_v=d_v, scale=scale, dropout=dropout, bias=bias, rotation=rotation)
        self.compression = compression
        self.key_kernel = WindowConvolution(self.key.out_features, compression)
        self.value_kernel = WindowConvolution(self.value.out_features, compression)
        self.core = CompressedCore(scale)

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        memory: Float[Tensor, "*BT D"],
        mask: AttentionMask = CAUSAL_MASK,
    ) -> Float[Tensor, "*BT D"]:
        """Attend from every position of `x` to compressed keys; see `MultiHeadAttention.forward`."""
        assert memory is x, "compressed attention is self-attention"
        query, key, value = self._project(x, mask.queries, self.query, self.key, self.value)
        key, value = self._compressed(key, self.key_kernel), self._compressed(value, self.value_kernel)
        if self.rotation is not None:
            ends = torch.arange(1, key.shape[2] + 1, device=key.device) * self.compression - 1
            query, key = self.rotation(query, 0), self.rotation(key, ends.unsqueeze(0))
        heads = self._heads(query, key, value, self.pattern(mask))
        return self.output(heads if mask.queries is None else mask.queries.from_grid(heads))

    def start(self, x: Float[Tensor, "B 0 D"]) -> CompressedCache:
        """See `CausalAttention.start`."""
        empty = super().start(x)
        last_keys, last_values = (
            empty.key.new_zeros(len(x), self.compression - 1, projection.out_features)
            for projection in (self.key, self.value)
        )
        return CompressedCache(empty.key, empty.value, empty.ends, 0, last_keys, last_values)

    def pattern(self, mask: AttentionMask) -> CompressedMask:
        """See `PatternAttention.pattern`."""
        allowed = mask.allowed
        if allowed is not None:
            # [B, T, S] -> [B, T, n, c] -> [B, T, n]: every token of the window
            n = allowed.shape[2] // self.compression
            allowed = allowed[:, :, : n * self.compression].unflatten(2, (n, self.compression)).all(dim=-1)
        return CompressedMask(
            allowed, mask.causal, mask.queries, mask.keys, mask.documents, compression=self.compression
        )

    def _compressed(self, x: Float[Tensor, "B H T K"], kernel: WindowConvolution) -> Float[Tensor, "B H n K"]:
        n = x.shape[2] // self.compression
        # [B, H, T, K] -> [B, T, H*K] -> [B, n*c, H*K] -> [B, n, c, H*K] -> [B, n, H*K] -> [B, H, n, K]
        merged = x.transpose(1, 2).flatten(2)[:, : n * self.compression]
        return self._split(kernel(merged.unflatten(1, (n, self.compression))))

    def _remember(
        self,
        cache: AttentionCache,
        key: Float[Tensor, "B H T K"],
        value: Float[Tensor, "B H T Kv"],
        positions: Int[Tensor, "B T"],
        real: Bool[Tensor, "B T"] | None,
    ) -> CompressedCache:
        assert isinstance(cache, CompressedCache)
        c, T = self.compression, key.shape[2]
        if real is None:
            real = torch.ones_like(positions, dtype=torch.bool)
        # [B, T], True for tokens that complete a window
        complete = real & ((positions + 1) % c == 0)
        if cache.tokens == 0:
            # One key for each window, as `compressed_attention` needs.
            column = torch.arange(1, T // c + 1, device=key.device) * c - 1
        else:
            column = complete.any(dim=0).nonzero().squeeze(1)
        # [n, 1] + [c] -> [n, c]: the window of token t consists of the elements t, ..., t + c - 1 of the last c - 1
        # tokens and the new ones, concatenated
        window = column.unsqueeze(1) + torch.arange(c, device=key.device)
        # [B, 1] + [c-1] -> [B, c-1]: in the same numbering, the last c - 1 tokens after reading
        last = real.sum(dim=1, keepdim=True) + torch.arange(c - 1, device=key.device)
        row = torch.arange(len(key), device=key.device).unsqueeze(1)
        compressed, lasts = [], []
        for new, before, kernel in (
            (key, cache.last_keys, self.key_kernel),
            (value, cache.last_values, self.value_kernel),
        ):
            # [B, H, T, K] -> [B, T, H*K] -> [B, c-1+T, H*K]
            tokens = torch.cat((before, new.transpose(1, 2).flatten(2)), dim=1)
            # [B, n, c, H*K] -> [B, n, H*K] -> [B, H, n, K]
            compressed.append(self._split(kernel(tokens[:, window])))
            lasts.append(tokens[row, last])
        key, value = compressed
        if self.rotation is not None:
            key = self.rotation(key, positions[:, column])
        extended = cache.extended(key, value, positions[:, column].masked_fill(~complete[:, column], NEVER), tokens=T)
        assert isinstance(extended, CompressedCache)
        return replace(extended, last_keys=lasts[0], last_values=lasts[1])
