"""Scaled dot-product attention, its masks, and multi-head attention.

Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.2. Every dot-product attention in the project
calls `scaled_dot_product_attention`. `naive_attention` is the same formula written out: it is the reference for the
tests, and it also returns the weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.packing import Layout


@dataclass(frozen=True)
class AttentionMask:
    """The keys that each query may attend to.

    The output for a query that may attend to no key is zeros, never NaN.

    Attributes:
        allowed: [B or 1, T or 1, S], True where a query may attend to a key; None if every key is allowed.
        causal: True if a query may attend only to keys at its own position and before it, in addition to `allowed`.
            The T queries are at the last T of the S positions of the keys.
        documents: [B, T], for self-attention: the document of each position, in addition: queries attend to keys of
            their own document only; None if each row is a part of one document.
        queries: memory layout of the queries (set by `between` and `past`); None for [B, T, D].
        keys: memory layout of the keys; None for [B, S, D].

    Example:
        >>> import torch
        >>> # The second sentence has two tokens and one position of padding.
        >>> mask = AttentionMask.padding(torch.tensor([[True, True, True], [True, True, False]]))
        >>> mask.dense(queries=2, keys=3, device=torch.device("cpu")).shape
        torch.Size([2, 1, 3])
    """

    allowed: Bool[Tensor, "B T S"] | None = None
    causal: bool = False
    queries: Layout | None = None
    keys: Layout | None = None
    documents: Int[Tensor, "B T"] | None = None

    def __post_init__(self) -> None:
        if self.allowed is not None:
            if self.allowed.dtype != torch.bool:
                raise ValueError(f"an attention mask must be boolean, not {self.allowed.dtype}")
            if self.allowed.dim() != 3:
                raise ValueError(f"an attention mask must have shape [B, T, S], not {tuple(self.allowed.shape)}")

    @classmethod
    def padding(cls, real: Bool[Tensor, "B S"]) -> "AttentionMask":
        """Return a mask that lets every query attend to the real keys, not to padding."""
        # [B, S] -> [B, 1, S]
        return cls(allowed=real.unsqueeze(1))

    @classmethod
    def between(cls, queries: Layout, keys: Layout) -> "AttentionMask":
        """Return a mask that lets every query attend to all tokens of the same sentence on the side of `keys`."""
        # [G, L] -> [G, 1, L]
        return cls(allowed=keys.attendable.unsqueeze(1), queries=queries, keys=keys)

    @classmethod
    def in_documents(cls, layout: Layout, documents: Int[Tensor, "B T"] | None) -> "AttentionMask":
        """Return a mask that lets every position attend to all positions of the same document.

        Args:
            layout: layout of the queries and the keys, without padding.
            documents: index of the document of each position; None if each row is a part of one document.
        """
        if documents is None:
            return cls(queries=layout, keys=layout)
        # [B, T, 1] == [B, 1, T] -> [B, T, T]
        same = documents.unsqueeze(2) == documents.unsqueeze(1)
        return cls(allowed=same, queries=layout, keys=layout)

    @classmethod
    def past(cls, layout: Layout) -> "AttentionMask":
        """Return a mask that lets every position attend to itself and to earlier ones; padding is at the end."""
        return cls(causal=True, queries=layout, keys=layout)

    @classmethod
    def past_in_documents(cls, layout: Layout, documents: Int[Tensor, "B T"] | None) -> "AttentionMask":
        """Return a mask that lets every position attend to itself and to earlier ones of the same document.

        Args:
            layout: layout of the queries and the keys, without padding.
            documents: index of the document of each position; None if each row is a part of one document.
        """
        return cls(causal=True, queries=layout, keys=layout, documents=documents)

    @property
    def real(self) -> Bool[Tensor, "*BT"] | None:
        """True for the queries that are tokens; None if the mask has no layout of the queries."""
        return None if self.queries is None else self.queries.real

    @cached_property
    def restriction(self) -> Bool[Tensor, "B T S"] | None:
        """True where the mask allows a query a key, apart from `causal`; None if it allows every key."""
        if self.documents is None:
            return self.allowed
        # [B, T, 1] == [B, 1, T] -> [B, T, T]
        same = self.documents.unsqueeze(2) == self.documents.unsqueeze(1)
        return same if self.allowed is None else same & self.allowed

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "B T S"]:
        """Return the mask as one tensor, broadcastable to [B, T, S].

        Args:
            queries: T, the number of queries.
            keys: S, the number of keys.
            device: device of the returned tensor.
        """
        allowed = self.restriction
        if allowed is None:
            allowed = torch.ones(1, 1, keys, dtype=torch.bool, device=device)
        if self.causal:
            allowed = allowed & torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
        return allowed


NO_MASK = AttentionMask()
CAUSAL_MASK = AttentionMask(causal=True)


def naive_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S Kv"],
    mask: AttentionMask = NO_MASK,
    bias: Float[Tensor, "B H T S"] | None = None,
    *,
    scale: float | None = None,
) -> tuple[Float[Tensor, "B H T Kv"], Float[Tensor, "B H T S"]]:
    """Return softmax(QKᵀ/√d_k)V and the weights softmax(QKᵀ/√d_k), as written in the paper.

    Source: Vaswani et al. (2017), section 3.2.1, equation 1.

    Args:
        query: Q, one row for each of T queries, in H heads.
        key: K, one row for each of S keys.
        value: V, one row for each of S keys.
        mask: the keys that each query may attend to.
        bias: added to the scaled attention scores QKᵀ/√d_k.
        scale: factor of QKᵀ in place of 1/√d_k; 1 for softmax(QKᵀ)V.

    Returns:
        The output [B, H, T, Kv] and the weights [B, H, T, S], whose rows sum to 1 (to 0 where no key is allowed).

    Example:
        >>> import torch
        >>> query, key, value = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 6, 8), torch.randn(1, 2, 6, 8)
        >>> output, weights = naive_attention(query, key, value)
        >>> output.shape, weights.shape
        (torch.Size([1, 2, 4, 8]), torch.Size([1, 2, 4, 6]))
    """
    d_k = query.shape[-1]
    # [B, H, T, K] x [B, H, K, S] -> [B, H, T, S]
    scores = query @ key.transpose(-2, -1)
    scores = scores / math.sqrt(d_k) if scale is None else scores * scale
    if bias is not None:
        scores = scores + bias
    # [B, T, S] -> [B, 1, T, S]: the same mask for every head
    allowed = mask.dense(query.shape[-2], key.shape[-2], query.device).unsqueeze(1)
    weights = scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    weights = weights.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)
    # [B, H, T, S] x [B, H, S, Kv] -> [B, H, T, Kv]
    return weights @ value, weights


def scaled_dot_product_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S Kv"],
    mask: AttentionMask = NO_MASK,
    dropout: float = 0.0,
    bias: Float[Tensor, "B H T S"] | None = None,
    *,
    scale: float | None = None,
) -> Float[Tensor, "B H T Kv"]:
    """Return softmax(QKᵀ/√d_k)V, computed by the fastest method for the device.

    Equal to the output of `naive_attention` up to rounding. Source: Vaswani et al. (2017), section 3.2.1, equation 1.

    Args:
        query: Q, one row for each of T queries, in H heads.
        key: K, one row for each of S keys.
        value: V, one row for each of S keys.
        mask: the keys that each query may attend to.
        dropout: probability of dropping a weight; pass 0 outside training.
        bias: added to the scaled attention scores QKᵀ/√d_k.
        scale: factor of QKᵀ in place of 1/√d_k; 1 for softmax(QKᵀ)V.

    Example:
        >>> import torch
        >>> x = torch.randn(1, 2, 4, 8)
        >>> output = scaled_dot_product_attention(x, x, x, CAUSAL_MASK)
        >>> torch.allclose(output, naive_attention(x, x, x, CAUSAL_MASK)[0], atol=1e-5)
        True
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if query.device.type == "cpu" and queries * keys <= SHORT * (TRAINING_FACTOR if query.requires_grad else 1):
        return _short_attention(query, key, value, mask, dropout, bias, scale)
    # torch's own causal mask has the queries at the first positions of the keys.
    if bias is None and mask.restriction is None and not (mask.causal and queries != keys):
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=mask.causal, scale=scale)
    # [B, T, S] -> [B, 1, T, S]
    allowed = mask.dense(queries, keys, query.device).unsqueeze(1)
    # torch accepts either a boolean mask or a tensor that is added to the attention scores.
    attn_mask = allowed if bias is None else bias.masked_fill(~allowed, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attn_mask, dropout_p=dropout, scale=scale)


# Largest number of weights per head (128 queries by 128 keys) for which plain matrix products are used on a CPU. In
# training, where the backward pass of torch's fused CPU kernel is slow, it is larger by a factor: at 128 by 128, that
# pass took a third of a training step, plain products a tenth; at 512 by 512, plain products still take half the time.
SHORT = 128 * 128
TRAINING_FACTOR = 16


def _short_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S Kv"],
    mask: AttentionMask,
    dropout: float,
    bias: Float[Tensor, "B H T S"] | None,
    scale: float | None,
) -> Float[Tensor, "B H T Kv"]:
    # [B, H, T, K] x [B, H, K, S] -> [B, H, T, S]; scaling the query is cheaper than scaling the attention scores
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask.restriction is None and not mask.causal:
        weights = scores.softmax(dim=-1)
    else:
        # [B, T, S] -> [B, 1, T, S]; the mask is added, because it is smaller than the attention scores
        allowed = mask.dense(query.shape[-2], key.shape[-2], query.device).unsqueeze(1)
        additive_mask = torch.zeros_like(allowed, dtype=scores.dtype).masked_fill_(~allowed, -torch.inf)
        attends = allowed.any(dim=-1, keepdim=True)
        weights = (scores + additive_mask.masked_fill_(~attends, 0.0)).softmax(dim=-1)
        if not attends.all():
            weights = weights * attends
    # Under autocast, softmax returns float32; without this conversion the product would also be computed in float32.
    weights = weights.to(value.dtype)
    # [B, H, T, S] x [B, H, S, Kv] -> [B, H, T, Kv]
    return F.dropout(weights, dropout) @ value


class AttentionCore(nn.Module):
    """`scaled_dot_product_attention` as a module without parameters; each attention has its own instance.

    `inspection` registers torch forward hooks on it to capture what each head computes and to switch heads off. Without
    hooks the cost is one function call.

    Args:
        scale: factor of QKᵀ; None for 1/√d_k.
    """

    def __init__(self, scale: float | None = None) -> None:
        super().__init__()
        self.scale = scale

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
        return scaled_dot_product_attention(query, key, value, mask, dropout, bias, scale=self.scale)


# (queries or keys [B, H, T, K], position of the first or of each [B or 1, T]) -> the same, rotated by their positions
Rotation = Callable[[Tensor, int | Tensor], Tensor]
# (queries [B, H, T, K], number of keys S or position of each [B or 1, S], position of the first query or of each
# [B or 1, T]) -> term [B, H, T, S] that depends on distance and is added to the scaled attention scores; without
# positions, keys are at 0..S-1
RelativeScores = Callable[[Tensor, int | Tensor, int | Tensor], Tensor]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O.

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V). The h projections of each kind are stored as one matrix.
    Source: Vaswani et al. (2017), section 3.2.2.

    Args:
        d_model: width of the input, the memory and the output.
        heads: number of heads; divides d_model, unless both d_k and d_v are given.
        d_k: width of a head's queries and keys (table 3, rows B); None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        scale: factor of QKᵀ; None for 1/√d_k.
        dropout: probability of dropping an attention weight in training.
        bias: True if the four projections have biases (the paper's reference implementation has none).
        rotation: rotates queries and keys by their positions; for self-attention only.
        relative: computes a term of the attention scores from the distance of query and key; for self-attention only.

    Example:
        >>> import torch
        >>> attention = MultiHeadAttention(d_model=16, heads=4)
        >>> target, source = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
        >>> attention(target, source).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotation: Rotation | None = None,
        relative: RelativeScores | None = None,
    ) -> None:
        super().__init__()
        assert d_model % heads == 0 or None not in (d_k, d_v), "the number of heads must divide d_model"
        self.heads = heads
        self.dropout = dropout
        keys, values = (d_model if width is None else heads * width for width in (d_k, d_v))
        self.query = nn.Linear(d_model, keys, bias=bias)
        self.key = nn.Linear(d_model, keys, bias=bias)
        self.value = nn.Linear(d_model, values, bias=bias)
        self.output = nn.Linear(values, d_model, bias=bias)
        self.rotation = rotation
        self.relative = relative
        self.core = AttentionCore(scale)

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        memory: Float[Tensor, "*BS D"],
        mask: AttentionMask = NO_MASK,
    ) -> Float[Tensor, "*BT D"]:
        """Attend from every position of `x` to `memory`.

        Args:
            x: [B, T, D], or rows in the layout `mask.queries`.
            memory: [B, S, D], or rows in the layout `mask.keys`; the same object as `x` for self-attention.
            mask: the keys that each query may attend to.
        """
        if memory is x:
            query, key, value = self._project(x, mask.queries, self.query, self.key, self.value)
        else:
            (query,) = self._project(x, mask.queries, self.query)
            key, value = self._project(memory, mask.keys, self.key, self.value)
        if self.rotation is not None:
            query, key = self.rotation(query, 0), self.rotation(key, 0)
        heads = self._heads(query, key, value, mask)
        return self.output(heads if mask.queries is None else mask.queries.from_grid(heads))

    def project_memory(
        self, memory: Float[Tensor, "B S D"], offset: int = 0
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S Kv"]]:
        """Return the keys and values of `memory`, whose first row is at position `offset`.

        Step-wise decoding keeps them as its key-value cache and appends to them.
        """
        key, value = self._split(self.key(memory)), self._split(self.value(memory))
        if self.rotation is not None:
            key = self.rotation(key, offset)
        return key, value

    def attend(
        self,
        x: Float[Tensor, "B T D"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask = NO_MASK,
        offset: int = 0,
    ) -> Float[Tensor, "B T D"]:
        """Attend from `x`, whose first row is at position `offset`, to keys and values from `project_memory`."""
        query = self._split(self.query(x))
        if self.rotation is not None:
            query = self.rotation(query, offset)
        return self.output(self._heads(query, key, value, mask))

    def _project(
        self, x: Float[Tensor, "*BT D"], layout: Layout | None, *projections: nn.Linear
    ) -> tuple[Float[Tensor, "B H T _"], ...]:
        """Compute several projections of `x` as one matrix product, which is faster than one product for each."""
        weight = torch.cat([projection.weight for projection in projections])
        bias = None
        if projections[0].bias is not None:
            bias = torch.cat([projection.bias for projection in projections])
        projected = F.linear(x, weight, bias)
        if layout is not None:
            # [*BT, n*H*K] -> [B, T, n*H*K]
            projected = layout.to_grid(projected)
        # [B, T, n*H*K] -> n x [B, T, H*K] -> n x [B, H, T, K]
        widths = [projection.out_features for projection in projections]
        return tuple(self._split(part) for part in projected.split(widths, dim=-1))

    def _heads(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
    ) -> Float[Tensor, "B T HKv"]:
        dropout = self.dropout if self.training else 0.0
        # The queries are at the last positions of the keys, of which the first may have been dropped from a cache.
        queries, keys = query.shape[2], key.shape[2]
        bias = None if self.relative is None else self.relative(query, keys, keys - queries)
        heads = self.core(query, key, value, mask, dropout, bias)
        # [B, H, T, Kv] -> [B, T, H, Kv] -> [B, T, H*Kv]: Concat(head_1, ..., head_h)
        return heads.transpose(1, 2).flatten(2)

    def _split(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        # [B, T, H*K] -> [B, T, H, K] -> [B, H, T, K]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
