"""Attention of Transformer-XL: scores with relative positions, over a memory and a segment.

Source: Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context" (2019), section 3.3. The
queries are at the last T of the S positions of the keys: the first S - T keys are those of the memory.

`RelativeAttention` computes the scores with one product for each distance and a shift (appendix B of the paper);
`four_terms` writes them out for each pair of positions and is the reference for the tests.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.attention import AttentionMask, MultiHeadAttention
from dragoman.layers.positions import SinusoidalDistances


def four_terms(
    query: Float[Tensor, "B H T K"],
    key: Float[Tensor, "B H S K"],
    encodings: Float[Tensor, "H R K"],
    content_bias: Float[Tensor, "H K"],
    position_bias: Float[Tensor, "H K"],
) -> Float[Tensor, "B H T S"]:
    """Return the attention scores before scaling, as the paper writes them: terms (a) to (d) of section 3.3.

    Args:
        query: q_i = W_q x_i, for the last T positions.
        key: k_j = W_{k,E} x_j, for all S positions.
        encodings: W_{k,R} R_d for the distances d = R - 1, ..., 0; scores at other distances are unspecified.
        content_bias: u.
        position_bias: v.
    """
    T, S, R = query.shape[2], key.shape[2], encodings.shape[1]
    # [T, 1] - [S] -> [T, S]
    distance = torch.arange(S - T, S).unsqueeze(1) - torch.arange(S)
    # [H, R, K] -> [H, T, S, K]: W_{k,R} R_{i-j} for each pair of positions
    relative = encodings[:, (R - 1 - distance).clamp(0, R - 1).to(encodings.device)]
    # (a) content with content, and (b) content with position
    a = torch.einsum("bhtk,bhsk->bhts", query, key)
    b = torch.einsum("bhtk,htsk->bhts", query, relative)
    # (c) bias of the content, and (d) bias of the position, the same for every query
    c = torch.einsum("hk,bhsk->bhs", content_bias, key).unsqueeze(2)
    d = torch.einsum("hk,htsk->hts", position_bias, relative)
    return a + b + c + d


def relative_shift(products: Float[Tensor, "B H T R"], keys: int) -> Float[Tensor, "B H T S"]:
    """Move the product of each query with each distance to the key at that distance.

    Only padding and a change of shape, instead of an index for each pair of positions (Dai et al. 2019, appendix B). A
    row of padded products is one longer than a row of the result, so that each row moves one place further.

    Args:
        products: one column for each distance, R - 1, ..., 0.
        keys: S, the number of keys, at least R - 1; the queries are the last T.

    Returns:
        One column for each key. Values at negative distances, and at R or more, are finite but otherwise unspecified.
    """
    T, R = products.shape[2:]
    # [B, H, T, R] -> [B, H, T, S+1] -> [B, H, T*(S+1)]
    padded = F.pad(products, (keys + 1 - R, 0)).flatten(2)
    # [B, H, T*(S+1)] -> [B, H, T*S] -> [B, H, T, S]
    return padded[:, :, T:].unflatten(2, (T, keys))


class ScoreBiases(nn.Module):
    """The vectors u and v of each head, which replace the query in the terms (c) and (d).

    Attributes:
        content: u, [H, K].
        position: v, [H, K].
    """

    def __init__(self, heads: int, d_k: int) -> None:
        super().__init__()
        self.content = nn.Parameter(torch.zeros(heads, d_k))
        self.position = nn.Parameter(torch.zeros(heads, d_k))


class RelativeAttention(MultiHeadAttention):
    """Multi-head attention whose score of query i and key j depends on their contents and on the distance i - j.

    The score is ((q_i + u)·k_j + (q_i + v)·W_{k,R} R_{i-j}) / √d_k, which are the four terms, collected. The first
    product is the one that all attentions compute, with u added to the query; the second is its bias.
    Source: Dai et al. (2019), section 3.3.

    Args:
        d_model: width of the input, the memory and the output.
        heads: number of heads.
        distances: the encodings R, which all layers can share.
        biases: u and v, which all layers can share.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        scale: factor of the scores; None for 1/√d_k.
        dropout: probability of dropping an attention weight in training.
        bias: True if the projections of queries, keys, values and outputs have biases.

    Example:
        >>> import torch
        >>> from dragoman.attention import CAUSAL_MASK
        >>> attention = RelativeAttention(16, 4, SinusoidalDistances(16), ScoreBiases(4, 4))
        >>> memory, segment = torch.randn(2, 7, 16), torch.randn(2, 5, 16)
        >>> attention(segment, torch.cat((memory, segment), dim=1), CAUSAL_MASK).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        distances: SinusoidalDistances,
        biases: ScoreBiases,
        *,
        d_k: int | None = None,
        d_v: int | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        bias: bool = False,
    ) -> None:
        super().__init__(d_model, heads, d_k=d_k, d_v=d_v, scale=scale, dropout=dropout, bias=bias)
        self.position = nn.Linear(d_model, self.key.out_features, bias=False)
        self.distances = distances
        self.biases = biases

    def encodings(self, length: int) -> Float[Tensor, "H R K"]:
        """Return W_{k,R} R_d for the distances d = length - 1, ..., 0."""
        # [R, D] -> [R, H*K] -> [R, H, K] -> [H, R, K]
        return self.position(self.distances(length)).unflatten(1, (self.heads, -1)).transpose(0, 1)

    def attend_within(
        self,
        x: Float[Tensor, "B T D"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
        encodings: Float[Tensor, "H R K"],
    ) -> Float[Tensor, "B T D"]:
        """Attend from `x` to keys and values from `project_memory`, of which the last T are those of `x`.

        Args:
            x: the last T positions.
            key: keys of all S positions.
            value: values of all S positions.
            mask: allows no distance beyond those of `encodings`.
            encodings: the result of `encodings`, which does not change from step to step; R is at most S + 1.
        """
        return self.output(self._relative_heads(self._split(self.query(x)), key, value, mask, encodings))

    def _heads(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
    ) -> Float[Tensor, "B T HKv"]:
        return self._relative_heads(query, key, value, mask, self.encodings(key.shape[2]))

    def _relative_heads(
        self,
        query: Float[Tensor, "B H T K"],
        key: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S Kv"],
        mask: AttentionMask,
        encodings: Float[Tensor, "H R K"],
    ) -> Float[Tensor, "B T HKv"]:
        # [H, K] -> [H, 1, K]; in the type of the query, which may be autocast's
        u, v = (bias.to(query.dtype).unsqueeze(1) for bias in (self.biases.content, self.biases.position))
        # [B, H, T, K] x [H, K, R] -> [B, H, T, R] -> [B, H, T, S]: terms (b) and (d)
        scale = query.shape[-1] ** -0.5 if self.core.scale is None else self.core.scale
        products = ((query + v) * scale) @ encodings.transpose(1, 2)
        terms_b_and_d = relative_shift(products, key.shape[2])
        # Terms (a) and (c) are the product of query and key.
        heads = self.core(query + u, key, value, mask, self.dropout if self.training else 0.0, terms_b_and_d)
        # [B, H, T, Kv] -> [B, T, H, Kv] -> [B, T, H*Kv]
        return heads.transpose(1, 2).flatten(2)
