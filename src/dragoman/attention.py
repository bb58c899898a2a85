"""Scaled dot-product attention, its masks, and multi-head attention.

Source: Vaswani et al., "Attention Is All You Need" (2017), section 3.2. Everything in the project that
attends calls `scaled_dot_product_attention` here; `naive_attention` is the same formula written out, the
reference of the tests and the only place that yields the weights.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.packing import Layout


@dataclass(frozen=True)
class AttentionMask:
    """Who may attend to whom: True = may attend.

    allowed  [B or 1, T or 1, S], or None when every key may be attended to
    causal   query t may attend to keys 0..t only, in addition to `allowed`
    queries  how the queries lie in memory, and
    keys     how the keys do, when they are rows of a batch (`between`, `past`); None: as [B, T, D] and [B, S, D]

    A row in which nothing may be attended to yields zeros, never NaN.
    """

    allowed: Bool[Tensor, "B T S"] | None = None
    causal: bool = False
    queries: Layout | None = None
    keys: Layout | None = None

    def __post_init__(self) -> None:
        if self.allowed is not None:
            if self.allowed.dtype != torch.bool:
                raise ValueError(f"an attention mask is boolean, not {self.allowed.dtype}")
            if self.allowed.dim() != 3:
                raise ValueError(f"an attention mask has shape [B, T, S], not {tuple(self.allowed.shape)}")

    @classmethod
    def padding(cls, real: Bool[Tensor, "B S"]) -> "AttentionMask":
        """Every query may attend to the keys that are real (not padding)."""
        # [B, S] -> [B, 1, S]
        return cls(allowed=real.unsqueeze(1))

    @classmethod
    def between(cls, queries: Layout, keys: Layout) -> "AttentionMask":
        """Every row of one batch may attend to the tokens of its sentence in another, or in the same."""
        # [G, L] -> [G, 1, L]
        return cls(allowed=keys.attended.unsqueeze(1), queries=queries, keys=keys)

    @classmethod
    def past(cls, layout: Layout) -> "AttentionMask":
        """Every row of a batch may attend to itself and what precedes it; padding is at the end."""
        return cls(causal=True, queries=layout, keys=layout)

    @property
    def real(self) -> Bool[Tensor, "*BT"] | None:
        """Which queries are tokens; None when that is not known."""
        return None if self.queries is None else self.queries.real

    def dense(self, queries: int, keys: int, device: torch.device) -> Bool[Tensor, "B T S"]:
        """Write the mask out as one tensor, broadcastable to [B, T, S]."""
        allowed = self.allowed
        if allowed is None:
            allowed = torch.ones(1, 1, keys, dtype=torch.bool, device=device)
        if self.causal:
            allowed = allowed & torch.ones(queries, keys, dtype=torch.bool, device=device).tril()
        return allowed


NO_MASK = AttentionMask()
CAUSAL_MASK = AttentionMask(causal=True)


def naive_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S Kv"],
    mask: AttentionMask = NO_MASK,
    bias: Float[Tensor, "B H T S"] | None = None,
) -> tuple[Float[Tensor, "B H T Kv"], Float[Tensor, "B H T S"]]:
    """softmax(QKᵀ/√d_k)V and the weights softmax(QKᵀ/√d_k) (equation 1), as written in the paper.

    `bias` is added to the scores QKᵀ/√d_k, as they are after scaling.
    """
    d_k = query.shape[-1]
    # [B, H, T, K] x [B, H, K, S] -> [B, H, T, S]
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
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
) -> Float[Tensor, "B H T Kv"]:
    """softmax(QKᵀ/√d_k)V (equation 1) by the fastest kernels that torch has for the device.

    Equal to `naive_attention` up to rounding. `dropout` is the probability with which a weight is
    dropped; the caller passes 0 outside training. `bias` is added to the scaled scores.
    """
    queries, keys = query.shape[-2], key.shape[-2]
    if query.device.type == "cpu" and queries * keys <= SHORT:
        return _short_attention(query, key, value, mask, dropout, bias)
    if bias is None and mask.allowed is None:
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=mask.causal)
    # [B, T, S] -> [B, 1, T, S]
    allowed = mask.dense(queries, keys, query.device).unsqueeze(1)
    # True and False, or what is added to the scores: torch takes either.
    added = allowed if bias is None else bias.masked_fill(~allowed, -torch.inf)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=added, dropout_p=dropout)


# Below this many weights per head, sentences of up to about 128 tokens, the backward pass of torch's
# fused CPU kernel takes a third of a training step; plain products take a tenth of that.
SHORT = 128 * 128


def _short_attention(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    value: Float[Tensor, "B H S Kv"],
    mask: AttentionMask,
    dropout: float,
    bias: Float[Tensor, "B H T S"] | None,
) -> Float[Tensor, "B H T Kv"]:
    # [B, H, T, K] x [B, H, K, S] -> [B, H, T, S]; scaling the query is cheaper than the scores
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask.allowed is None and not mask.causal:
        weights = scores.softmax(dim=-1)
    else:
        # [B, T, S] -> [B, 1, T, S]; added rather than filled: the mask is smaller than the scores
        allowed = mask.dense(query.shape[-2], key.shape[-2], query.device).unsqueeze(1)
        barrier = torch.zeros_like(allowed, dtype=scores.dtype).masked_fill_(~allowed, -torch.inf)
        attends = allowed.any(dim=-1, keepdim=True)
        weights = (scores + barrier.masked_fill_(~attends, 0.0)).softmax(dim=-1)
        if not attends.all():
            weights = weights * attends
    # Autocast's softmax is float32; without this the product would be, too.
    weights = weights.to(value.dtype)
    # [B, H, T, S] x [B, H, S, Kv] -> [B, H, T, Kv]
    return F.dropout(weights, dropout) @ value


class AttentionCore(nn.Module):
    """`scaled_dot_product_attention` as a module without parameters, of which every attention has its own.

    Torch's forward hooks see there what each head computes, and can switch heads off: `inspection.capture`,
    `inspection.heads`. Without hooks it costs one call.
    """

    def forward(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
        dropout: float = 0.0,
        bias: Float[Tensor, "B H T S"] | None = None,
    ) -> Float[Tensor, "B H T Kv"]:
        """The heads' outputs, before they are put together."""
        return scaled_dot_product_attention(query, key, value, mask, dropout, bias)


# Turns queries and keys [B, H, T, K], the first of which is at position `offset`, by their position.
Rotation = Callable[[Tensor, int], Tensor]
# From queries [B, H, T, K], the first of which is at position `offset`, and the number of keys S, which stand at
# 0, 1, ...: what their distances add to the scaled scores, [B, H, T, S].
RelativeScores = Callable[[Tensor, int, int], Tensor]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O (section 3.2.2).

    head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V); the h projections of each kind are one matrix.

    Args:
        d_model: width of what attends, of memory and of the output.
        heads: number of heads; divides d_model, and d_v = d_model / heads.
        d_k: width of a head's queries and keys (table 3, rows B); None: d_model / heads.
        dropout: probability with which an attention weight is dropped in training.
        bias: whether the four projections have biases (the paper's reference has none).
        rotation: turns queries and keys by position; only for self-attention.
        relative: adds to the scores by the distance of query and key; only for self-attention.
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        *,
        d_k: int | None = None,
        dropout: float = 0.0,
        bias: bool = False,
        rotation: Rotation | None = None,
        relative: RelativeScores | None = None,
    ) -> None:
        super().__init__()
        assert d_model % heads == 0, "the number of heads must divide d_model"
        self.heads = heads
        self.dropout = dropout
        keys = d_model if d_k is None else heads * d_k
        self.query = nn.Linear(d_model, keys, bias=bias)
        self.key = nn.Linear(d_model, keys, bias=bias)
        self.value = nn.Linear(d_model, d_model, bias=bias)
        self.output = nn.Linear(d_model, d_model, bias=bias)
        self.rotation = rotation
        self.relative = relative
        self.core = AttentionCore()

    def forward(
        self,
        x: Float[Tensor, "*BT D"],
        memory: Float[Tensor, "*BS D"],
        mask: AttentionMask = NO_MASK,
    ) -> Float[Tensor, "*BT D"]:
        """Every position of `x` attends to `memory`; self-attention is `memory is x`.

        Both are [B, T, D], or rows in the layouts of `mask.queries` and `mask.keys`.
        """
        if memory is x:
            query, key, value = self._project(x, mask.queries, self.query, self.key, self.value)
        else:
            (query,) = self._project(x, mask.queries, self.query)
            key, value = self._project(memory, mask.keys, self.key, self.value)
        if self.rotation is not None:
            query, key = self.rotation(query, 0), self.rotation(key, 0)
        heads = self._heads(query, key, value, mask, offset=0)
        return self.output(heads if mask.queries is None else mask.queries.from_grid(heads))

    def project_memory(
        self, memory: Float[Tensor, "B S D"], offset: int = 0
    ) -> tuple[Float[Tensor, "B H S K"], Float[Tensor, "B H S Kv"]]:
        """Keys and values of `memory`, whose first row stands at position `offset`.

        They can be kept and appended to: the key-value cache of step-wise decoding.
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
        """Attend from `x`, whose first row stands at position `offset`, to projected memory."""
        query = self._split(self.query(x))
        if self.rotation is not None:
            query = self.rotation(query, offset)
        return self.output(self._heads(query, key, value, mask, offset))

    def _project(
        self, x: Float[Tensor, "*BT D"], layout: Layout | None, *projections: nn.Linear
    ) -> tuple[Float[Tensor, "B H T _"], ...]:
        """Several projections of the same `x` as one product, which is faster than one after another."""
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
        return tuple(self._split(each) for each in projected.split(widths, dim=-1))

    def _heads(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
        offset: int,
    ) -> Float[Tensor, "B T D"]:
        dropout = self.dropout if self.training else 0.0
        bias = None if self.relative is None else self.relative(query, key.shape[2], offset)
        heads = self.core(query, key, value, mask, dropout, bias)
        # [B, H, T, Kv] -> [B, T, H, Kv] -> [B, T, D]: Concat(head_1, ..., head_h)
        return heads.transpose(1, 2).flatten(2)

    def _split(self, x: Float[Tensor, "B T HK"]) -> Float[Tensor, "B H T K"]:
        # [B, T, H*K] -> [B, T, H, K] -> [B, H, T, K]
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
