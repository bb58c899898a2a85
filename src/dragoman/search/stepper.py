"""The one thing that a search knows of a model: a step that gives log-probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.state import DecoderState
from dragoman.search.results import require_finite


class SearchState(Protocol):
    """What a decoder remembers of N running hypotheses."""

    def reorder(self, rows: Int[Tensor, " N"]) -> Self:
        """The state of these rows; they may repeat (beams) or drop out (finished)."""


State = TypeVar("State", bound=SearchState)


class Stepper(Protocol[State]):
    """A model (or several) seen one position at a time; its own `start` makes the first state."""

    def step(self, token: Int[Tensor, " N"], state: State) -> tuple[Float[Tensor, "N V"], State]:
        """The last token of N hypotheses -> float32 log-probabilities of the next one."""


class SearchModel(Stepper[State], Protocol[State]):
    """A `Stepper` that reads the source too."""

    models: Sequence[Seq2Seq]

    def start(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> State:
        """Encode B sources (mask: True = real); the state of B outputs with nothing said yet."""


class SingleModel:
    """One sequence-to-sequence model as an `SearchModel`."""

    def __init__(self, model: Seq2Seq) -> None:
        self.models: Sequence[Seq2Seq] = (model,)
        self._model = model

    def start(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> DecoderState:
        """See `SearchModel`."""
        return self._model.start(self._model.encode(source, mask))

    def step(self, token: Int[Tensor, " N"], state: DecoderState) -> tuple[Float[Tensor, "N V"], DecoderState]:
        """See `Stepper`."""
        logits, state = self._model.step(token, state)
        return _log_probabilities(logits), state


@dataclass(frozen=True)
class EnsembleState:
    """The states of the members, reordered together."""

    members: tuple[DecoderState, ...]

    def reorder(self, rows: Int[Tensor, " N"]) -> EnsembleState:
        """See `SearchState`."""
        return EnsembleState(tuple(member.reorder(rows) for member in self.members))


class Ensemble:
    """Models of one vocabulary as one `SearchModel`: the mean of their probabilities."""

    def __init__(self, models: Sequence[Seq2Seq]) -> None:
        assert models
        self.models: Sequence[Seq2Seq] = tuple(models)

    def start(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> EnsembleState:
        """See `SearchModel`."""
        return EnsembleState(tuple(model.start(model.encode(source, mask)) for model in self.models))

    def step(self, token: Int[Tensor, " N"], state: EnsembleState) -> tuple[Float[Tensor, "N V"], EnsembleState]:
        """See `Stepper`."""
        log_probabilities, states = [], []
        for model, member in zip(self.models, state.members, strict=True):
            logits, member = model.step(token, member)
            log_probabilities.append(_log_probabilities(logits))
            states.append(member)
        return log_mean_exp(log_probabilities), EnsembleState(tuple(states))


def _log_probabilities(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
    """The logarithm of the softmax, in float32.

    Raises:
        FloatingPointError: when one of them is not finite.
    """
    log_probabilities = logits.float().log_softmax(-1)
    # One pass: a sum is finite only if everything in it is.
    require_finite(float(log_probabilities.sum()))
    return log_probabilities


def log_mean_exp(log_probabilities: Sequence[Tensor]) -> Tensor:
    """log((p_1 + ... + p_n) / n), elementwise, of n tensors of log p_i of one shape."""
    # n times [...] -> [n, ...] -> [...]
    return torch.stack(list(log_probabilities)).logsumexp(0) - math.log(len(log_probabilities))
