"""The attention of recurrent decoders: scores of a state and the source's positions, weights, attentional state.

Letters: u a state of the decoder, v a state of the encoder, p the weights, c the context.
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

# States u [B, t, D] of the next t positions -> their scores [B, t, S], or attentional states [B, t, D].
Scores = Callable[[Tensor], Tensor]
Attend = Callable[[Tensor], Tensor]

# Elements of tanh(Uu + Vv) that are computed at once: 64 MB in float32.
ADDITIVE_AT_ONCE = 1 << 24


class AttentionWeights(nn.Module):
    """p = softmax(scores) over the positions that may be attended to; zeros where there are none.

    Every weight of a recurrent model's attention is computed here, by a module without parameters: torch's forward
    hooks see the weights, and can change them.
    """

    def forward(self, scores: Float[Tensor, "B T S"], mask: AttentionMask) -> Float[Tensor, "B T S"]:
        """The weights of some positions' scores."""
        allowed = mask.dense(scores.shape[1], scores.shape[2], scores.device)
        attends = allowed.any(dim=-1, keepdim=True)
        weights = scores.masked_fill(~allowed & attends, float("-inf")).softmax(dim=-1)
        # On a GPU, autocast's softmax is float32; the product with the values shall not be.
        return weights.masked_fill(~attends, 0.0).to(scores.dtype)


@dataclass(frozen=True)
class AttendedSource:
    """The source as attention reads it.

    keys    [B, S, A]  what a state is compared with, computed once for a sentence
    values  [B, S, D]  the encoder's states
    mask    which of them are real
    """

    keys: Float[Tensor, "B S A"]
    values: Float[Tensor, "B S D"]
    mask: AttentionMask

    def reorder(self, rows: Int[Tensor, " N"]) -> "AttendedSource":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        assert self.mask.allowed is not None
        return AttendedSource(self.keys[rows], self.values[rows], AttentionMask(self.mask.allowed[rows]))


class Score(nn.Module, ABC):
    """How well a state u of the decoder and a state v of the encoder fit."""

    @abstractmethod
    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S A"]:
        """What can be computed of v alone."""

    @abstractmethod
    def unroll(self, keys: Float[Tensor, "B S A"], calls: int, positions: int) -> Scores:
        """The scores of u [B, positions, D], to be asked for `calls` times."""


class DotScore(Score):
    """uᵀv (Luong et al. 2015, section 3.1)."""

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """v."""
        return values

    def unroll(self, keys: Float[Tensor, "B S D"], calls: int, positions: int) -> Scores:
        """[B, t, D] x [B, D, S] -> [B, t, S]."""
        return RepeatedProduct(keys, _zeros(keys, calls, positions, keys.shape[1]))


class GeneralScore(DotScore):
    """uᵀWv (Luong et al. 2015, section 3.1): Wv is computed once."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.source = nn.Linear(d_model, d_model, bias=False)

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """Wv."""
        return self.source(values)


class AdditiveScore(Score):
    """wᵀtanh(Uu + Vv) (Bahdanau et al. 2015, appendix A.1.2)."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.state = nn.Linear(d_model, d_model, bias=False)
        self.source = nn.Linear(d_model, d_model, bias=False)
        self.vector = nn.Linear(d_model, 1, bias=False)

    def keys(self, values: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """Vv."""
        return self.source(values)

    def unroll(self, keys: Float[Tensor, "B S D"], calls: int, positions: int) -> Scores:
        """Some positions at a time, as [B, t, S, D] can be large."""
        from_state = RepeatedProduct(self.state.weight.to(keys.dtype), _zeros(keys, calls, positions, keys.shape[2]))
        at_once = max(1, ADDITIVE_AT_ONCE // max(1, keys.numel()))

        def scores(u: Float[Tensor, "B t D"]) -> Float[Tensor, "B t S"]:
            return torch.cat(
                [
                    # [B, t, 1, D] + [B, 1, S, D] -> [B, t, S, D] -> [B, t, S, 1] -> [B, t, S]
                    self.vector((some.unsqueeze(2) + keys.unsqueeze(1)).tanh()).squeeze(3)
                    for some in from_state(u).split(at_once, dim=1)
                ],
                dim=1,
            )

        return scores


class RecurrentAttention(nn.Module):
    """ũ = tanh(W[c; u]) with the context c = Σ_s p_s v_s and p = softmax(score(u, v_s)) (Luong et al. 2015, eq. 5)."""

    def __init__(self, score: Score, d_model: int) -> None:
        super().__init__()
        self.score = score
        self.weights = AttentionWeights()
        self.combine = nn.Linear(2 * d_model, d_model, bias=False)

    def read(self, values: Float[Tensor, "B S D"], mask: AttentionMask) -> AttendedSource:
        """The source, ready to be attended to."""
        return AttendedSource(self.score.keys(values), values, mask)

    def unroll(self, source: AttendedSource, calls: int = 1, positions: int = 1) -> Attend:
        """A function from states u [B, positions, D] to attentional states ũ, to be called `calls` times.

        All T positions at once are one call; with input feeding there are T calls, of one position each.
        """
        values, zeros = source.values, _zeros(source.values, calls, positions, source.values.shape[2])
        scores = self.score.unroll(source.keys, calls, positions)
        # p v: [B, S, D] -> [B, D, S], as the product is with the transposed
        context = RepeatedProduct(values.transpose(1, 2), zeros)
        combine = RepeatedProduct(self.combine.weight.to(values.dtype), zeros)

        def attend(u: Float[Tensor, "B t D"]) -> Float[Tensor, "B t D"]:
            # [B, t, S] -> [B, t, D]
            c = context(self.weights(scores(u), source.mask))
            # 2 x [B, t, D] -> [B, t, 2D] -> [B, t, D]
            return combine(torch.cat((c, u), dim=-1)).tanh()

        return attend


def _zeros(like: Tensor, calls: int, positions: int, width: int) -> Float[Tensor, "calls B t W"]:
    """Nothing to add to a product of each call."""
    return like.new_zeros(()).expand(calls, len(like), positions, width)
