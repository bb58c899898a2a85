"""Causal self-attention that also reads a text in pieces, with a cache of keys and values.

Rows of a batch may have read texts of different lengths: the cache contains the position of every key.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.attention import CAUSAL_MASK, AttentionMask, MultiHeadAttention

# Position of a key that no query may attend to: the token was padding.
NEVER = 1 << 40


@dataclass(frozen=True)
class AttentionCache:
    """Keys and values of the tokens that an attention has read. Immutable: reading returns another cache.

    Attributes:
        key: [B, H, n, K].
        value: [B, H, n, Kv].
        ends: [B, n], position of the last token of which a key consists; `NEVER` for padding.
        tokens: number of tokens read, including padding.
    """

    key: Float[Tensor, "B H n K"]
    value: Float[Tensor, "B H n Kv"]
    ends: Int[Tensor, "B n"]
    tokens: int

    def extended(
        self, key: Float[Tensor, "B H m K"], value: Float[Tensor, "B H m Kv"], ends: Int[Tensor, "B m"], tokens: int
    ) -> "AttentionCache":
        """Return the cache with further keys, made of `tokens` further tokens."""
        # [B, H, n, K] and [B, H, m, K] -> [B, H, n+m, K]
        return replace(
            self,
            key=torch.cat((self.key, key), dim=2),
            value=torch.cat((self.value, value), dim=2),
            ends=torch.cat((self.ends, ends), dim=1),
            tokens=self.tokens + tokens,
        )

    def columns(self, useful: Bool[Tensor, "B n"]) -> "AttentionCache":
        """Return the cache without keys that are of no use in any text."""
        kept = useful.any(dim=0).nonzero().squeeze(1)
        return replace(self, key=self.key[:, :, kept], value=self.value[:, :, kept], ends=self.ends[:, kept])

    def last(self, positions: int) -> "AttentionCache":
        """Return the cache of at most this number of last tokens of texts of equal length."""
        return self.columns(self.ends >= self.tokens - positions)

    def reorder(self, rows: Int[Tensor, " N"]) -> "AttentionCache":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(self, key=self.key[rows], value=self.value[rows], ends=self.ends[rows])


class CausalAttention(MultiHeadAttention):
    """Multi-head self-attention of each token to itself and to earlier tokens.

    `forward`, which is inherited, computes all positions of a text at once; `read` continues a text, with equal
    results. Subclasses restrict the tokens that are attended to.

    Example:
        >>> import torch
        >>> attention = CausalAttention(d_model=16, heads=4)
        >>> text = torch.randn(2, 7, 16)
        >>> first, cache = attention.read(text[:, :5], attention.start(text[:, :0]), 0)
        >>> second, cache = attention.read(text[:, 5:], cache, 5)
        >>> whole = attention(text, text, AttentionMask(causal=True))
        >>> torch.allclose(torch.cat((first, second), dim=1), whole, atol=1e-5)
        True
    """

    def start(self, x: Float[Tensor, "B 0 D"]) -> AttentionCache:
        """Return the cache before the first position; `x` is an empty input, which determines rows, type and device."""
        key, value = self.project_memory(x)
        return AttentionCache(key, value, torch.empty(len(x), 0, dtype=torch.int64, device=x.device), tokens=0)

    def read(
        self,
        x: Float[Tensor, "B T D"],
        cache: AttentionCache,
        position: int | Int[Tensor, " B"],
        real: Bool[Tensor, "B T"] | None = None,
    ) -> tuple[Float[Tensor, "B T D"], AttentionCache]:
        """Attend from further tokens to themselves and to those in the cache.

        Args:
            x: the tokens.
            cache: the cache before them.
            position: position of the first of them, in all texts or in each.
            real: True for tokens, False for padding, which is at the end; None if there is no padding.

        Returns:
            The output, and the cache that includes these tokens.
        """
        start = torch.full((len(x),), position, device=x.device) if isinstance(position, int) else position
        # [B, 1] + [T] -> [B, T]
        positions = start.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)
        query, key, value = self._project(x, None, self.query, self.key, self.value)
        if self.rotation is not None:
            query = self.rotation(query, positions)
        first, aligned = cache.tokens == 0, isinstance(position, int) and real is None
        cache = self._remember(cache, key, value, positions, real)
        mask = self._mask(positions, cache.ends, first=first, aligned=aligned)
        bias = None if self.relative is None else self.relative(query, cache.ends, positions)
        heads = self.core(query, cache.key, cache.value, mask, self.dropout if self.training else 0.0, bias)
        read = x.shape[1] if real is None else real.sum(dim=1)
        # [B, H, T, Kv] -> [B, T, H, Kv] -> [B, T, D]: Concat(head_1, ..., head_h)
        return self.output(heads.transpose(1, 2).flatten(2)), self._pruned(cache, start + read)

    def _remember(
        self,
        cache: AttentionCache,
        key: Float[Tensor, "B H T K"],
        value: Float[Tensor, "B H T Kv"],
        positions: Int[Tensor, "B T"],
        real: Bool[Tensor, "B T"] | None,
    ) -> AttentionCache:
        """Return the cache with the keys and values of further tokens; `real` is False for padding."""
        if self.rotation is not None:
            key = self.rotation(key, positions)
        ends = positions if real is None else positions.masked_fill(~real, NEVER)
        return cache.extended(key, value, ends, tokens=key.shape[2])

    def _mask(
        self, positions: Int[Tensor, "B T"], ends: Int[Tensor, "B n"], *, first: bool, aligned: bool
    ) -> AttentionMask:
        """Return the mask of a read.

        Args:
            positions: positions of the queries.
            ends: position of the last token of each key.
            first: True if the texts begin with these queries.
            aligned: True if all texts are at the same position, and there is no padding.
        """
        # If possible, a mask without a tensor; padding is at the end.
        return CAUSAL_MASK if first or aligned else AttentionMask(allowed=self._reaches(positions, ends))

    def _reaches(self, positions: Int[Tensor, "B T"], ends: Int[Tensor, "B n"]) -> Bool[Tensor, "B T n"]:
        """Return True where the query at a position may attend to the key that ends at another."""
        # [B, 1, n] <= [B, T, 1] -> [B, T, n]
        return ends.unsqueeze(1) <= positions.unsqueeze(2)

    def _pruned(self, cache: AttentionCache, position: Int[Tensor, " B"]) -> AttentionCache:
        """Return the cache without keys that no query from `position` on may attend to."""
        return cache


class PatternAttention(CausalAttention):
    """Base class of causal attention to a part of the earlier tokens."""

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        memory: Float[Tensor, "*BT D"],
        mask: AttentionMask = CAUSAL_MASK,
    ) -> Float[Tensor, "*BT D"]:
        """Attend from every position of `x` to itself and earlier ones; see `MultiHeadAttention.forward`."""
        assert memory is x, "the pattern is one of self-attention"
        return super().forward(x, x, self.pattern(mask))

    @abstractmethod
    def pattern(self, mask: AttentionMask) -> AttentionMask:
        """Return `mask` restricted to the keys that this attention may attend to, for a text from its beginning."""

    def _mask(
        self, positions: Int[Tensor, "B T"], ends: Int[Tensor, "B n"], *, first: bool, aligned: bool
    ) -> AttentionMask:
        return self.pattern(CAUSAL_MASK) if first else AttentionMask(allowed=self._reaches(positions, ends))
