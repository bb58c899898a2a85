"""The attention of recurrent decoders: attention scores, weights and the attentional state.

Letters: u is a state of the decoder, v a state of the encoder, p the weights, c the context.
Sources: Bahdanau et al., "Neural Machine Translation by Jointly Learning to Align and Translate" (2015); Luong et al.,
"Effective Approaches to Attention-based Neural Machine Translation" (2015).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.recurrence import RepeatedProduct

# Decoder states u [B, t, D] at the next t positions -> attention scores [B, t, S].
ScoreFunction = Callable[[Tensor], Tensor]
# Decoder states u [B, t, D] at the next t positions -> attentional states [B, t, D].
AttendFunction = Callable[[Tensor], Tensor]

# Largest number of elements of tanh(Uu + Vv) that are computed at a time: 64 MB in float32.
ADDITIVE_CHUNK = 1 << 24


class AttentionWeights(nn.Module):
    """p = softmax(scores) over the source positions that may be attended to; zeros if there are none.

    All attention weights of a recurrent model are computed by this module, which has no parameters, so that torch
    forward hooks can capture or change them.
    """

    def forward(self, scores: Float[Tensor, "B T S"], mask: AttentionMask) -> Float[Tensor, "B T S"]:
        """Return the weights for the attention scores of T target positions."""
        allowed = mask.dense(scores.shape[1], scores.shape[2], scores.device)
        attends = allowed.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~allowed & attends, float("-inf")).softmax(dim=-1)
        # On a GPU, softmax returns float32 under autocast; the product with the values keeps the type of the scores.
        return weights.masked_fill(~attends, 0.0).to(scores.dtype)


@dataclass(frozen=True)
class ProjectedSource:
    """The encoded source with its attention keys.

    Attributes:
        keys: [B, S, A], compared with the decoder's states; computed once for a sentence.
        values: [B, S, D], the encoder's states.
        mask: the source positions that are tokens.
    """

    keys: Float[Tensor, "B S A"]
    values: Float[Tensor, "B S D"]
    mask: AttentionMask

    def reorder(self, rows: Int[Tensor, " N"]) -> "ProjectedSource":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        assert self.mask.allowed is not None
        return ProjectedSource(self.keys[rows], self.values[rows], AttentionMask(self.mask.allowed[rows]))


class AttentionScore(nn.Module, ABC):
    """Attention score of a decoder state u and an encoder state v."""

    @abstractmethod
    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S A"]:
        """Return the part of the computation that depends only on v."""

    @abstractmethod
    def unroll(self, keys: Float[Tensor, "B S A"], calls: int, positions: int) -> ScoreFunction:
        """Return a function from u [B, positions, D] to attention scores, to be called `calls` times."""


class DotScore(AttentionScore):
    """uᵀv (Luong et al. 2015, section 3.1)."""

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """Return v."""
        return values

    def unroll(self, keys: Float[Tensor, "B S D"], calls: int, positions: int) -> ScoreFunction:
        """See `AttentionScore.unroll`."""
        # [B, t, D] x [B, D, S] -> [B, t, S]
        return RepeatedProduct(keys, _zeros(keys, calls, positions, keys.shape[1]))


class GeneralScore(DotScore):
    """uᵀWv (Luong et al. 2015, section 3.1); Wv is computed once for a sentence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.source = nn.Linear(d_model, d_model, bias=False)

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """Return Wv."""
        return self.source(values)


class AdditiveScore(AttentionScore):
    """wᵀtanh(Uu + Vv) (Bahdanau et al. 2015, appendix A.1.2), with the current state u, as in Luong et al. (2015)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.state = nn.Linear(d_model, d_model, bias=False)
        self.source = nn.Linear(d_model, d_model, bias=False)
        self.vector = nn.Linear(d_model, 1, bias=False)

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """Return Vv."""
        return self.source(values)

    def unroll(self, keys: Float[Tensor, "B S D"], calls: int, positions: int) -> ScoreFunction:
        """See `AttentionScore.unroll`; computed in chunks of positions, because [B, t, S, D] can be large."""
        from_state = RepeatedProduct(self.state.weight.to(keys.dtype), _zeros(keys, calls, positions, keys.shape[2]))
        chunk_length = max(1, ADDITIVE_CHUNK // max(1, keys.numel()))

        def scores(u: Float[Tensor, "B t D"]) -> Float[Tensor, "B t S"]:
            return torch.cat(
                [
                    # [B, t, 1, D] + [B, 1, S, D] -> [B, t, S, D] -> [B, t, S, 1] -> [B, t, S]
                    self.vector((chunk.unsqueeze(2) + keys.unsqueeze(1)).tanh()).squeeze(3)
                    for chunk in from_state(u).split(chunk_length, dim=1)
                ],
                dim=1,
            )

        return scores


class RecurrentAttention(nn.Module):
    """ũ = tanh(W[c; u]) with the context c = Σ_s p_s v_s and p = softmax(score(u, v_s)) (Luong et al. 2015, eq. 5)."""

    def __init__(self, score: AttentionScore, d_model: int) -> None:
        super().__init__()
        self.score = score
        self.weights = AttentionWeights()
        self.combine = nn.Linear(2 * d_model, d_model, bias=False)

    def project_source(self, values: Float[Tensor, "B S D"], mask: AttentionMask) -> ProjectedSource:
        """Compute the attention keys of the source, once for a sentence.

        Args:
            values: the encoder's states v.
            mask: the source positions that may be attended to.
        """
        return ProjectedSource(self.score.keys(values), values, mask)

    def unroll(self, source: ProjectedSource, calls: int = 1, positions: int = 1) -> AttendFunction:
        """Return a function from states u [B, positions, D] to attentional states ũ, to be called `calls` times.

        Without input feeding, one call computes all T positions. With input feeding, T calls compute one position each.
        """
        values, zeros = source.values, _zeros(source.values, calls, positions, source.values.shape[2])
        scores = self.score.unroll(source.keys, calls, positions)
        # [B, S, D] -> [B, D, S]: RepeatedProduct multiplies by the transposed matrix
        context = RepeatedProduct(values.transpose(1, 2), zeros)
        combine = RepeatedProduct(self.combine.weight.to(values.dtype), zeros)

        def attend(u: Float[Tensor, "B t D"]) -> Float[Tensor, "B t D"]:
            # [B, t, S] -> [B, t, D]
            c = context(self.weights(scores(u), source.mask))
            # 2 x [B, t, D] -> [B, t, 2D] -> [B, t, D]
            return combine(torch.cat((c, u), dim=-1)).tanh()

        return attend


def _zeros(like: Tensor, calls: int, positions: int, width: int) -> Float[Tensor, "calls B t W"]:
    """Return zeros for the argument `added` of `RepeatedProduct`."""
    return like.new_zeros(()).expand(calls, len(like), positions, width)
