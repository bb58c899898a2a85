"""Continuation of a text by a language model: sampling, greedy search and beam search, beyond the model's context."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from dragoman.errors import ModelError
from dragoman.search.beam import beam_search
from dragoman.search.config import ContinuationConfig
from dragoman.search.results import EMPTY_HYPOTHESES, Hypothesis, require_finite
from dragoman.search.sampling import BLOCK, draw, penalise_repetition, random_key, uniforms
from dragoman.search.stepper import State
from dragoman.text.subwords import EOS, NEVER_GENERATED


class ContinuationModel(Protocol[State]):
    """Interface of a language model that computes one position of several texts at a time."""

    @property
    def device(self) -> torch.device:
        """Device of the model's inputs and outputs."""

    def start(self, rows: int) -> State:
        """Return the state of this number of empty texts."""

    def read(self, tokens: Int[Tensor, "N T"], state: State) -> State:
        """Return the state after T further tokens of each text."""

    def step(self, token: Int[Tensor, " N"], state: State) -> tuple[Float[Tensor, "N V"], State]:
        """Return the logits of the token after `token` in float32, and the state after `token`."""


@dataclass(frozen=True)
class WindowState(Generic[State]):
    """State of N texts of which the model has read the last part.

    Attributes:
        inner: state of the model.
        length: number of tokens in that state.
        recent: the last tokens of the texts, at most half a window, which are read again when the window is full.
    """

    inner: State
    length: int
    recent: Int[Tensor, "N R"]

    def reorder(self, rows: Int[Tensor, " M"]) -> WindowState[State]:
        """See `SearchState`."""
        return WindowState(self.inner.reorder(rows), self.length, self.recent[rows])


class Window(Generic[State]):
    """A `ContinuationModel` for texts that are longer than its context.

    When a text fills the window, the model starts again from an empty state and reads the last half of the window; the
    text before it is forgotten. A prompt that is longer than the window is treated in the same way: only its last
    tokens are read, half a window.

    Args:
        model: the language model.
        size: number of tokens that the model may read in sequence, at least 2.
        on_full: called each time that text is forgotten.
    """

    def __init__(self, model: ContinuationModel[State], size: int, on_full: Callable[[], None] = lambda: None) -> None:
        assert size >= 2
        self.device = model.device
        self._model, self._size, self._half = model, size, size // 2
        self._on_full = on_full

    def start(self, rows: int) -> WindowState[State]:
        """See `ContinuationModel`."""
        empty = torch.empty(rows, 0, dtype=torch.int64, device=self.device)
        return WindowState(self._model.start(rows), 0, empty)

    def read(self, tokens: Int[Tensor, "N T"], state: WindowState[State]) -> WindowState[State]:
        """See `ContinuationModel`."""
        recent = self._recent(state, tokens)
        if state.length + tokens.size(1) <= self._size:
            inner = self._model.read(tokens, state.inner)
            return WindowState(inner, state.length + tokens.size(1), recent)
        self._on_full()
        return WindowState(self._model.read(recent, self._model.start(len(tokens))), recent.size(1), recent)

    def step(
        self, token: Int[Tensor, " N"], state: WindowState[State]
    ) -> tuple[Float[Tensor, "N V"], WindowState[State]]:
        """See `ContinuationModel`."""
        inner, length = state.inner, state.length
        if length == self._size:
            self._on_full()
            inner, length = self._model.read(state.recent, self._model.start(len(token))), state.recent.size(1)
        logits, inner = self._model.step(token, inner)
        return logits, WindowState(inner, length + 1, self._recent(state, token[:, None]))

    def _recent(self, state: WindowState[State], tokens: Int[Tensor, "N T"]) -> Int[Tensor, "N R"]:
        return torch.cat([state.recent, tokens], 1)[:, -self._half :]


class Chosen(NamedTuple):
    """A token that continues a text.

    Attributes:
        row: index of the text.
        token: token id; EOS ends the text.
        log_probability: natural logarithm of the model's probability of the token, before temperature, penalty and
            truncation.
    """

    row: int
    token: int
    log_probability: float


class Continuation(Generic[State]):
    """Running continuation of a prompt by sampling or by greedy search: several texts, extended together.

    Sample i depends on the prompt, the seed and i only.

    Args:
        model: the language model.
        prompt: token ids of the beginning of the text, at least one, such as BOS.
        config: settings; `max_tokens` is left to the caller. With a beam, it must be 1: greedy search.

    Attributes:
        running: indices of the texts that have not ended.

    Raises:
        ModelError: if the vocabulary contains only special tokens.
    """

    def __init__(self, model: ContinuationModel[State], prompt: Sequence[int], config: ContinuationConfig) -> None:
        assert config.beam in (None, 1)
        self._model, self._config = model, config
        self._key = random_key(prompt)
        self._numbers: list[Float[Tensor, "N block"]] = []
        self._position = 0
        self._state = read_prompt(model, prompt[:-1], config.outputs)
        # [N], and [R] below: the R texts that are running
        self._token = torch.full((config.outputs,), prompt[-1], dtype=torch.int64, device=model.device)
        self.running = list(range(config.outputs))
        self._rows = torch.arange(config.outputs, device=model.device)
        self._prompt = prompt
        self._occurred: Bool[Tensor, "R V"] | None = None

    @torch.no_grad()
    def advance(self) -> list[Chosen]:
        """Return the next token of each running text; a text ends after EOS.

        Raises:
            FloatingPointError: if the model computes values that are not finite.
        """
        assert self.running
        logits, self._state = self._model.step(self._token, self._state)
        # [R, V] -> [R, 1] below, for the chosen tokens
        normaliser = logits.logsumexp(-1, keepdim=True)
        require_finite(float(normaliser.sum()))
        if logits.size(-1) <= len(NEVER_GENERATED) + 1:
            raise ModelError(EMPTY_HYPOTHESES)
        token = self._choose(logits)
        log_probability = (logits.gather(1, token[:, None]) - normaliser).squeeze(1)
        self._token = token
        self._position += 1
        if self._occurred is not None:
            self._occurred[torch.arange(len(token), device=token.device), token] = True
        chosen = list(map(Chosen, self.running, token.tolist(), log_probability.tolist()))
        self.end([one.row for one in chosen if one.token == EOS])
        return chosen

    def end(self, rows: Collection[int]) -> None:
        """End these texts: they are not extended further."""
        keep = [index for index, row in enumerate(self.running) if row not in rows]
        if len(keep) == len(self.running):
            return
        kept = torch.tensor(keep, dtype=torch.int64, device=self._model.device)
        self.running = [self.running[index] for index in keep]
        self._rows, self._token = self._rows[kept], self._token[kept]
        if self._occurred is not None:
            self._occurred = self._occurred[kept]
        if keep:
            self._state = self._state.reorder(kept)

    def _choose(self, logits: Float[Tensor, "R V"]) -> Int[Tensor, " R"]:
        config = self._config
        if config.repetition_penalty > 1:
            if self._occurred is None:
                self._occurred = torch.zeros_like(logits, dtype=torch.bool)
                self._occurred[:, list(self._prompt)] = True
            logits = penalise_repetition(logits, self._occurred, config.repetition_penalty)
        logits = logits.clone()
        logits[:, list(NEVER_GENERATED)] = -math.inf
        if config.beam == 1:
            return logits.argmax(-1)
        index = self._position % BLOCK
        if index == 0:
            # [N, BLOCK]: the random numbers of the next positions
            seed = config.sampling.seed
            streams = [uniforms(seed, self._key, i, BLOCK, self._position) for i in range(config.outputs)]
            self._numbers = [torch.from_numpy(np.stack(streams)).to(logits.device)]
        return draw(logits, self._numbers[0][self._rows, index], config.sampling)


@torch.no_grad()
def continue_by_beam_search(
    model: ContinuationModel[State], prompt: Sequence[int], config: ContinuationConfig
) -> list[Hypothesis]:
    """Return the `n_best` continuations with the highest scores, best first.

    A continuation of `max_tokens` tokens ends there: its log-probability and its score contain no probability of the
    end of the text. `Hypothesis.finished` is True for the other ones, which end with EOS.

    Args:
        model: the language model.
        prompt: token ids of the beginning of the text, at least one, such as BOS.
        config: settings with a beam.

    Raises:
        FloatingPointError: if the model computes values that are not finite.
        ModelError: if the vocabulary contains only special tokens.
    """
    search = config.search()
    stepper = _BeamStepper(model, prompt[-1], search.max_length_offset)
    state = _BeamState(read_prompt(model, prompt[:-1], 1), 0)
    [hypotheses] = beam_search(stepper, state, [0], search, model.device)
    return [
        Hypothesis(
            tokens=hypothesis.tokens,
            log_probability=hypothesis.log_probability,
            score=hypothesis.score,
            finished=len(hypothesis.tokens) < search.max_length_offset,
        )
        for hypothesis in hypotheses
    ]


@torch.no_grad()
def read_prompt(model: ContinuationModel[State], prompt: Sequence[int], rows: int) -> State:
    """Return the state of several equal texts after the tokens of `prompt`, which may be empty."""
    state = model.start(1)
    tokens = torch.tensor([list(prompt)], dtype=torch.int64, device=model.device)
    if prompt:
        state = model.read(tokens, state)
    return state if rows == 1 else state.reorder(torch.zeros(rows, dtype=torch.int64, device=model.device))


@dataclass(frozen=True)
class _BeamState(Generic[State]):
    inner: State
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> _BeamState[State]:
        return _BeamState(self.inner.reorder(rows), self.position)


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
        logits, inner = self._model.step(token, state.inner)
        log_probabilities = logits.log_softmax(-1)
        require_finite(float(log_probabilities.sum()))
        if state.position == self._maximum:
            log_probabilities[:, EOS] = 0.0
        return log_probabilities, _BeamState(inner, state.position + 1)
