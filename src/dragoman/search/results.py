"""Inputs and results of a search. This module does not import torch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dragoman.errors import ModelError

EMPTY_HYPOTHESES = (
    "the search found no output: the model's vocabulary or its shortlist contains no tokens except special ones"
)


class SearchInput(NamedTuple):
    """Input of a search: a source and the beginning of its output.

    Attributes:
        source: source ids without EOS.
        prefix: target ids with which the output must begin; may be empty.
    """

    source: list[int]
    prefix: list[int]


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """An output of a search.

    Attributes:
        tokens: target ids without EOS.
        log_probability: natural logarithm of the model's probability of the tokens and EOS. It equals that of `score`
            for the same pair, also for unfinished hypotheses.
        score: log_probability / length_penalty(len(tokens) + 1, alpha).
        finished: False if EOS was forced by the maximum length, although the model's most probable next token was
            another one.
        totals: natural logarithm of the probability of the tokens up to each of them; empty if the search does not
            record it, as that in two directions.

    Raises:
        FloatingPointError: if the log-probability is not finite, as with weights of a diverged run.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool
    totals: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        require_finite(self.log_probability)


@dataclass(frozen=True, kw_only=True)
class Score:
    """Probability of a target given its source.

    Attributes:
        log_probability: natural logarithm of the probability of the target, including EOS.
        tokens: number of target tokens including EOS; exp(-log_probability / tokens) is the perplexity.
        score: log_probability / length_penalty(tokens, alpha), by which search ranks outputs.
    """

    log_probability: float
    tokens: int
    score: float


# Score of a pair that is too long.
NOT_SCORED = Score(log_probability=math.nan, tokens=0, score=math.nan)


def require_finite(log_probability: float) -> None:
    """Check that a log-probability, or a sum of several, is finite.

    Raises:
        FloatingPointError: if it is not, as with a model whose computation overflows.
    """
    if not math.isfinite(log_probability):
        raise FloatingPointError(
            f"the model computes probabilities that are not finite ({log_probability}): "
            "its training diverged or its weights are damaged"
        )


def require_outputs(hypotheses: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
    """Return the hypotheses of all inputs, after checking that there is at least one for each input.

    Raises:
        ModelError: if an input has no hypothesis, as with a vocabulary or a shortlist of special tokens only.
    """
    if not all(hypotheses):
        raise ModelError(EMPTY_HYPOTHESES)
    return list(hypotheses)
