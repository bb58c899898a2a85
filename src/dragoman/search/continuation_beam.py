"""Beam search for the continuation of a text by a language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from jaxtyping import Float, Int
from torch import Tensor

from dragoman.search.beam import beam_search
from dragoman.search.config import ContinuationConfig
from dragoman.search.continuation import ContinuationModel, State, check_vocabulary, read_prompt
from dragoman.search.results import Hypothesis, require_finite
from dragoman.text.subwords import EOS


@torch.no_grad()
def continue_by_beam_search(
    model: ContinuationModel[State],
    prompt: Sequence[int],
    config: ContinuationConfig,
    device: torch.device = torch.device("cpu"),  # noqa: B008 - immutable
) -> list[Hypothesis]:
    """Return the `n_best` continuations with the highest scores, best first.

    A continuation of `max_tokens` tokens ends there: its log-probability and its score contain no probability of the
    end of the text. `Hypothesis.finished` is True for the other ones, which end with EOS.

    Args:
        model: the language model.
        prompt: token ids of the beginning of the text, at least one, such as BOS.
        config: settings with a beam.
        device: device of the logits of the model.

    Raises:
        FloatingPointError: if the model computes values that are not finite.
        ModelError: if the vocabulary contains only special tokens.
    """
    check_vocabulary(model)
    search = config.search()
    stepper = _BeamStepper(model, prompt[-1], search.max_length_offset)
    state = _BeamState(read_prompt(model, prompt, 1), 0)
    [hypotheses] = beam_search(stepper, state, [0], search, device)
    return [
        Hypothesis(
            tokens=hypothesis.tokens,
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            finished=len(hypothesis.tokens) < search.max_length_offset,
        )
        for hypothesis in hypotheses
    ]


@dataclass(frozen=True)
class _BeamState(Generic[State]):
    inner: State
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> _BeamState[State]:
        return _BeamState(self.inner.reorder(rows.tolist()), self.position)


class _BeamStepper(Generic[State]):
    """A language model as the `Stepper` of a beam search whose outputs are cut at the maximum length.

    Args:
        model: the language model.
        first: last token of the prompt, in place of the BOS with which the search begins.
        maximum: the maximum length, at which the search forces EOS; its log-probability is 0 there.
    """

    def __init__(self, model: ContinuationModel[State], first: int, maximum: int) -> None:
        self._model, self._first, self._maximum = model, first, maximum

    def step(
        self, token: Int[Tensor, " N"], state: _BeamState[State]
    ) -> tuple[Float[Tensor, "N V"], _BeamState[State]]:
        if state.position == 0:
            token = torch.full_like(token, self._first)
        logits, inner = self._model.step(token.cpu().numpy(), state.inner)
        log_probabilities = logits.log_softmax(-1)
        require_finite(float(log_probabilities.sum()))
        if state.position == self._maximum:
            log_probabilities[:, EOS] = 0.0
        return log_probabilities, _BeamState(inner, state.position + 1)
