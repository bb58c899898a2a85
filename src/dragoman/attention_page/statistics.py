"""What heads seem to do, by figures measured of their weights.

Measured per query and averaged over queries; over a corpus, over the queries of all sentences. See Clark et al., "What
Does BERT Look At?" (2019), and Voita et al., "Analyzing Multi-Head Self-Attention" (2019), for the kinds of heads.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from dragoman.attention_page.kinds import Head, Kind
from dragoman.text.characters import SPACE_MARK
from dragoman.text.words import SPECIAL

Role = Literal["previous", "next", "same", "separator", "broad", "mixed"]
# A head is named after what gets more than this share of its weight.
NAMED_FROM = 0.4
# A head is broad when its weights are so close to even: entropy over that of even weights.
BROAD_FROM = 0.75


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """One head's figures, means over `queries` queries.

    entropy     of the weights, in bits; 0: one key has all
    evenness    entropy over that of even weights, 0 to 1; of queries that have more than one key
    distance    |query position - key position|, weighted, in tokens
    previous, next, same
                weight that goes to the token before the query's, after it, to itself, as they are written; of
                encoder-decoder attention, to the source position on the diagonal and its neighbours
    separator   weight that goes to punctuation, <s> and </s>
    confidence  the largest weight
    """

    head: Head
    queries: int
    entropy: float
    evenness: float
    distance: float
    previous: float
    next: float
    same: float
    separator: float
    confidence: float

    @property
    def role(self) -> tuple[Role, float]:
        """What the head seems to do, and the figure that says so."""
        shares: dict[Role, float] = {
            "previous": self.previous,
            "next": self.next,
            "same": self.same,
            "separator": self.separator,
        }
        name = max(shares, key=lambda share: shares[share])
        if shares[name] >= NAMED_FROM:
            return name, shares[name]
        return ("broad" if self.evenness >= BROAD_FROM else "mixed"), self.evenness


@dataclass(frozen=True, kw_only=True)
class HeadMeasurement:
    """One head over a corpus.

    statistics  means over all queries
    importance  by how much the loss (nats per target token) grows when the head is off (Michel et al., "Are Sixteen
                Heads Really Better than One?", 2019); below 0, the model is better without it. A head of a Universal
                Transformer is off at all steps, or at none: its importance stands at the first, and is None at others
    """

    statistics: HeadStatistics
    importance: float | None


@dataclass(frozen=True, kw_only=True)
class HeadMeasurements:
    """All heads over a corpus; loss in nats per target token, EOS included, with all of them on."""

    heads: tuple[HeadMeasurement, ...]
    loss: float
    sentences: int
    target_tokens: int

    @property
    def removable(self) -> int:
        """The number of heads that can be switched off one by one."""
        return sum(each.importance is not None for each in self.heads)

    def least_important(self, count: int) -> list[Head]:
        """Return the heads without which the loss grows least, the least important first."""
        known = [each for each in self.heads if each.importance is not None]
        ranked = sorted(known, key=lambda each: each.importance or 0.0)
        return [each.statistics.head for each in ranked[:count]]


def measure(
    weights: Float[np.ndarray, "N H T S"], kind: Kind, keys: Sequence[str], *, right_to_left: bool = False
) -> list[HeadStatistics]:
    """The figures of every head of one kind for one sentence; `keys` are the S tokens that it looks at.

    `right_to_left`: the model writes the target from its end.
    """
    N, H, T, S = weights.shape
    assert len(keys) == S
    weights = weights.astype(np.float64)
    key = np.arange(S)
    query = np.arange(T)
    if kind == "encoder_decoder":
        if right_to_left:
            # The end of the text is written first; </s> stays last.
            query[:-1] = query[:-1][::-1].copy()
        # Source and target are of different lengths: the diagonal joins their ends.
        query = np.round(query * (S - 1) / max(T - 1, 1))
    # [1, S] - [T, 1] -> [T, S]
    offset = key[None, :] - query[:, None]
    # [N, H, T, S] -> [N, H, T]
    entropy = -(weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(-1)
    # A causal query has the keys up to itself only.
    choices = np.minimum(np.arange(1, T + 1), S) if kind == "decoder_self" else np.full(T, S)
    evenness = (entropy / np.log2(np.maximum(choices, 2)))[..., choices > 1]
    separators = np.array([is_separator(token) for token in keys])

    def mean(share: Float[np.ndarray, "N H T"]) -> Float[np.ndarray, "N H"]:
        return share.mean(-1) if share.shape[-1] else np.zeros((N, H))

    figures = {
        "entropy": mean(entropy),
        "evenness": mean(evenness),
        "distance": mean((weights * np.abs(offset)).sum(-1)),
        "previous": mean((weights * (offset == -1)).sum(-1)),
        "next": mean((weights * (offset == 1)).sum(-1)),
        "same": mean((weights * (offset == 0)).sum(-1)),
        "separator": mean(weights[..., separators].sum(-1)),
        "confidence": mean(weights.max(-1)),
    }
    return [
        HeadStatistics(
            head=Head(kind, layer, head),
            queries=T,
            **{name: float(figure[layer, head]) for name, figure in figures.items()},
        )
        for layer in range(N)
        for head in range(H)
    ]


def is_separator(token: str) -> bool:
    """Whether a token is a special symbol or nothing but punctuation."""
    body = token.replace(SPACE_MARK, "")
    return token in SPECIAL or (
        body != "" and all(unicodedata.category(character).startswith("P") for character in body)
    )
