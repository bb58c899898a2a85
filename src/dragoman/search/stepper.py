"""Interface between a search and a model: steps that return log-probabilities of the next token."""

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
    """Decoder state of several running hypotheses, one per row."""

    def reorder(self, rows: Int[Tensor, " N"]) -> Self:
        """Return the state of these rows, which may contain duplicates and leave out rows."""


State = TypeVar("State", bound=SearchState)


class Stepper(Protocol[State]):
    """Interface of a model, or an ensemble, that computes one position at a time."""

    def step(self, token: Int[Tensor, " N"], state: State) -> tuple[Float[Tensor, "N V"], State]:
        """Return the log-probabilities of the next token in float32, and the next state.

        Args:
            token: last token of each of N hypotheses.
            state: decoder state of these hypotheses, from `SearchModel.start` or the previous step.
        """


class SearchModel(Stepper[State], Protocol[State]):
    """A `Stepper` that also encodes sources."""

    models: Sequence[Seq2Seq]

    def start(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> State:
        """Encode B sources and return the initial state of their outputs.

        Args:
            source: source tokens.
            mask: True at real tokens, False at padding.
        """


class SingleModel:
    """A single sequence-to-sequence model as a `SearchModel`."""

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
    """The states of the models of an ensemble."""

    members: tuple[DecoderState, ...]

    def reorder(self, rows: Int[Tensor, " N"]) -> EnsembleState:
        """See `SearchState`."""
        return EnsembleState(tuple(member.reorder(rows) for member in self.members))


class Ensemble:
    """Several models of one vocabulary as a `SearchModel` that computes the mean of their probabilities."""

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
    """Return the log-softmax of the logits in float32.

    Raises:
        FloatingPointError: if one of the values is not finite.
    """
    log_probabilities = logits.float().log_softmax(-1)
    # The sum needs only one pass, and is finite only if all values are.
    require_finite(float(log_probabilities.sum()))
    return log_probabilities


def log_mean_exp(log_probabilities: Sequence[Tensor]) -> Tensor:
    """Return log((p_1 + ... + p_n) / n) elementwise, for n tensors log p_i of one shape."""
    # n times [...] -> [n, ...] -> [...]
    return torch.stack(list(log_probabilities)).logsumexp(0) - math.log(len(log_probabilities))
