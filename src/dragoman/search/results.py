"""What a search is given and what it returns. Nothing here needs torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.errors import ModelError

EMPTY_HYPOTHESES = "a search found no output: the model's vocabulary, or its shortlist, has no token to say"


class Piece(NamedTuple):
    """What is searched for at once: source ids without EOS, and the target ids that the output begins with."""

    source: list[int]
    prefix: list[int]


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One output of a search.

    tokens           target ids without EOS
    log_probability  natural logarithm of the model's probability of tokens + EOS: what `score`
                     gives for the same pair, for unfinished hypotheses too
    score            log_probability / length_penalty(len(tokens) + 1, alpha)
    finished         False when the maximum length ended it: EOS was forced there although the
                     model's most probable next token was another one

    Raises FloatingPointError when the log-probability is not a number (weights of a run that
    diverged), since such an output means nothing.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool

    def __post_init__(self) -> None:
        require_finite(self.log_probability)


@dataclass(frozen=True, kw_only=True)
class Score:
    """How probable a target is, given its source.

    log_probability  natural logarithm, EOS included: the sum over `tokens` tokens
    tokens           target tokens, EOS included; exp(-log_probability / tokens) is the perplexity
    score            log_probability / length_penalty(tokens, alpha), as search ranks
    """

    log_probability: float
    tokens: int
    score: float


# Of a pair that is too long to be scored.
NOT_SCORED = Score(log_probability=math.nan, tokens=0, score=math.nan)


def require_finite(log_probability: float) -> None:
    """Refuse what a model whose numbers overflow makes.

    Raises:
        FloatingPointError: when the log-probability, or a sum of some, is not finite.
    """
    if not math.isfinite(log_probability):
        raise FloatingPointError(
            f"the model gives probabilities that are no numbers ({log_probability}): "
            "its training diverged or its weights are damaged"
        )


def require_outputs(found: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """Return what was found, if it is something for each piece.

    Raises:
        ModelError: when nothing was found for a piece: no token may follow, as with a vocabulary or a shortlist of
            special tokens only.
    """
    if not all(found):
        raise ModelError(EMPTY_HYPOTHESES)
    return list(found)
