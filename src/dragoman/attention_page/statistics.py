"""Statistics of attention weights, and the roles of heads that follow from them.

All statistics are means over queries; for a corpus, over the queries of all sentences. For the roles of heads, see
Clark et al., "What Does BERT Look At?" (2019), and Voita et al., "Analyzing Multi-Head Self-Attention" (2019).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from dragoman.attention_page.kinds import NAMES, NAMES_IN_TEXT, Head, Kind
from dragoman.text.characters import SPACE_MARK
from dragoman.text.words import SPECIAL

Role = Literal["previous", "next", "same", "separator", "broad", "mixed"]
# A head has the role "previous", "next", "same" or "separator" if those tokens have at least this share of its weight.
NAMED_FROM = 0.4
# Otherwise, a head has the role "broad" if its evenness is at least this.
BROAD_FROM = 0.75


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Statistics of one head.

    For encoder-decoder attention, the position of a query is the corresponding source position on the diagonal.

    Attributes:
        head: the head.
        queries: number of queries over which the other values are means.
        entropy: entropy of the weights in bits; 0 if one key has all the weight.
        evenness: entropy / entropy of uniform weights, from 0 to 1; a mean over queries with more than one key.
        distance: weighted mean of |query position - key position|, in tokens.
        previous: weight on the token before the query's position.
        next: weight on the token after the query's position.
        same: weight on the token at the query's position.
        separator: weight on punctuation, <s> and </s>.
        confidence: the largest weight.
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
        """The role of the head, and the value that determines it: a share of the weight, or the evenness."""
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
    """Measurements of one head over a corpus.

    Attributes:
        statistics: means over all queries.
        importance: increase of the loss, in nats per target token, when the head is switched off (Michel et al., "Are
            Sixteen Heads Really Better than One?", 2019); below 0, the model is better without it. A head of a
            Universal Transformer can be switched off only at all steps together: the importance is given for the first
            step, and is None for the others.
    """

    statistics: HeadStatistics
    importance: float | None


@dataclass(frozen=True, kw_only=True)
class HeadMeasurements:
    """Measurements of all heads over a corpus.

    Attributes:
        heads: one measurement for each head.
        loss: loss with all heads, in nats per target token, including EOS; of texts, in nats per predicted token.
        sentences: number of sentences or texts.
        target_tokens: number of target tokens, including EOS; of texts, number of predicted tokens.
        is_text: True for a model of one text, False for a translation model.
    """

    heads: tuple[HeadMeasurement, ...]
    loss: float
    sentences: int
    target_tokens: int
    is_text: bool = False

    @property
    def names(self) -> dict[Kind, str]:
        """Names of the kinds of attention."""
        return NAMES_IN_TEXT if self.is_text else NAMES

    @property
    def removable(self) -> int:
        """Number of heads that can be switched off separately."""
        return sum(head.importance is not None for head in self.heads)

    def least_important(self, count: int) -> list[Head]:
        """Return `count` heads whose removal increases the loss least, the least important first."""
        measured = [head for head in self.heads if head.importance is not None]
        ranked = sorted(measured, key=lambda head: head.importance or 0.0)
        return [head.statistics.head for head in ranked[:count]]


def measure(
    weights: Float[np.ndarray, "N H T S"], kind: Kind, keys: Sequence[str], *, right_to_left: bool = False
) -> list[HeadStatistics]:
    """Return the statistics of all heads of one kind of attention for one sentence.

    Args:
        weights: attention weights.
        kind: the kind of attention.
        keys: the S tokens that are attended to.
        right_to_left: True if the model writes the target from its last token to its first.

    Example:
        >>> import numpy as np
        >>> weights = np.eye(3)[None, None]
        >>> [statistics] = measure(weights, "encoder_self", ["▁Hello", "▁world", "</s>"])
        >>> statistics.role
        ('same', 1.0)
    """
    N, H, T, S = weights.shape
    assert len(keys) == S
    weights = weights.astype(np.float64)
    key = np.arange(S)
    query = np.arange(T)
    if kind == "encoder_decoder":
        if right_to_left:
            # The last word of the text is written first; </s> is last in both directions.
            query[:-1] = query[:-1][::-1].copy()
        # Source and target have different lengths: the diagonal connects their first and their last tokens.
        query = np.round(query * (S - 1) / max(T - 1, 1))
    # [1, S] - [T, 1] -> [T, S]
    offset = key[None, :] - query[:, None]
    # [N, H, T, S] -> [N, H, T]
    entropy = -(weights * np.log2(np.where(weights > 0, weights, 1.0))).sum(-1)
    # A causal query attends only to keys up to its own position.
    visible_keys = np.minimum(np.arange(1, T + 1), S) if kind == "decoder_self" else np.full(T, S)
    evenness = (entropy / np.log2(np.maximum(visible_keys, 2)))[..., visible_keys > 1]
    separators = np.array([is_separator(token) for token in keys])

    def mean(values: Float[np.ndarray, "N H T"]) -> Float[np.ndarray, "N H"]:
        return values.mean(-1) if values.shape[-1] else np.zeros((N, H))

    means = {
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
            **{name: float(values[layer, head]) for name, values in means.items()},
        )
        for layer in range(N)
        for head in range(H)
    ]


def is_separator(token: str) -> bool:
    """Return True if a token is a special symbol or consists of punctuation only."""
    body = token.replace(SPACE_MARK, "")
    return token in SPECIAL or (
        body != "" and all(unicodedata.category(character).startswith("P") for character in body)
    )
