"""Logistic regression on one value."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import CorpusError

# Newton's method converges in about ten steps; each one is halved until the loss falls.
_STEPS, _HALVINGS, _TOLERANCE = 100, 50, 1e-10

Vector = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LogisticMap:
    """The map x -> 1 / (1 + exp(-(slope x + offset))).

    Attributes:
        slope: rise of the log-odds with x.
        offset: log-odds at x = 0.
    """

    slope: float
    offset: float

    def __call__(self, x: float) -> float:
        """Return the probability at x, 0 to 1."""
        # The hyperbolic tangent does not overflow.
        return 0.5 * (1 + math.tanh(0.5 * (self.slope * x + self.offset)))


def fit_logistic(values: Sequence[float], outcomes: Sequence[bool]) -> LogisticMap:
    """Fit the probability of an outcome to one value by maximum likelihood, with Newton's method.

    The two targets are not 0 and 1, but those of Platt ("Probabilistic Outputs for Support Vector Machines", 1999):
    (a + 1) / (a + 2) and 1 / (b + 2) for a outcomes that are True and b that are False. With them the optimum is
    finite, even if a value separates the outcomes.

    Args:
        values: a value for each outcome.
        outcomes: the outcomes.

    Raises:
        CorpusError: if all outcomes, or all values, are equal.

    Example:
        >>> fitted = fit_logistic([0.1, 0.2, 0.6, 0.7, 0.9], [False, False, True, False, True])
        >>> fitted(0.1) < 0.5 < fitted(0.9)
        True
    """
    x, positive = np.asarray(values, dtype=np.float64), np.asarray(outcomes, dtype=bool)
    if len(set(positive.tolist())) < 2 or len(set(x.tolist())) < 2:
        raise CorpusError("a probability cannot be fitted, because all values or all outcomes are equal")
    goods = int(positive.sum())
    target = np.where(positive, (goods + 1) / (goods + 2), 1 / (len(x) - goods + 2))
    # Centred and scaled, the two parameters hardly depend on each other.
    mean, scale = float(x.mean()), float(x.std())
    design = np.stack([(x - mean) / scale, np.ones_like(x)], axis=1)
    parameters = np.zeros(2)
    loss = _loss(design @ parameters, target)
    for _ in range(_STEPS):
        odds = design @ parameters
        p = 0.5 * (1 + np.tanh(0.5 * odds))
        gradient = design.T @ (p - target)
        step = np.linalg.solve((design * (p * (1 - p))[:, None]).T @ design, gradient)
        if np.abs(step).max() < _TOLERANCE:
            break
        for _ in range(_HALVINGS):
            if (reduced := _loss(design @ (parameters - step), target)) <= loss:
                break
            step /= 2
        parameters, loss = parameters - step, reduced
    slope = float(parameters[0]) / scale
    return LogisticMap(slope=slope, offset=float(parameters[1]) - slope * mean)


def _loss(odds: Vector, target: Vector) -> float:
    return float((np.logaddexp(0, odds) - target * odds).sum())
