"""Continuation of a text by a language model: sampling and greedy search, beyond the model's context.

This module does not import torch: the native engine runs without it. Letters: N number of texts, T number of tokens, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64

from dragoman.errors import ModelError
from dragoman.search.config import ContinuationConfig
from dragoman.search.random_streams import BLOCK, random_key, uniforms
from dragoman.search.results import EMPTY_HYPOTHESES
from dragoman.text.subwords import EOS, NEVER_GENERATED

if TYPE_CHECKING:
    import torch


class TextState(Protocol):
    """State of a language model after the beginnings of several texts, one per row. Immutable."""

    def reorder(self, rows: Sequence[int]) -> Self:
        """Return the state of these rows, which may contain duplicates and leave out rows."""


State = TypeVar("State", bound=TextState)


@dataclass(frozen=True)
class Extension(Generic[State]):
    """Further tokens of N texts.

    Attributes:
        tokens: token ids. After EOS, which ends a text, the rest of its row has no meaning.
        log_probabilities: natural logarithm of the model's probability of each token, before temperature, penalty and
            truncation.
        state: state after the tokens but the last one.
    """

    tokens: Int64[np.ndarray, "N T"]
    log_probabilities: Float32[np.ndarray, "N T"]
    state: State


class ContinuationModel(Protocol[State]):
    """Interface of a language model that reads and extends several texts together."""

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""

    def start(self, rows: int) -> State:
        """Return the state of this number of empty texts."""

    def read(self, tokens: Int64[np.ndarray, "N T"], state: State) -> State:
        """Return the state after T further tokens of each text; T may be 0."""

    def extend(
        self,
        last: Int64[np.ndarray, " N"],
        state: State,
        uniform: Float64[np.ndarray, "N T"],
        config: ContinuationConfig,
        occurred: Bool[np.ndarray, "N V"] | None,
    ) -> Extension[State]:
        """Extend each text by at least one token and at most T tokens.

        Args:
            last: last token of each text, which the model has not read.
            state: state before that token.
            uniform: a random number in [0, 1) for each token; not used by greedy search.
            config: how tokens are chosen.
            occurred: True for the tokens that occurred in the text; None without a repetition penalty.

        Raises:
            FloatingPointError: if the model computes values that are not finite.
        """

    def step(self, token: Int64[np.ndarray, " N"], state: State) -> tuple[torch.Tensor, State]:
        """Return the logits [N, V] of the token after `token` in float32, and the state after `token`."""


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
    recent: Int64[np.ndarray, "N R"]

    def reorder(self, rows: Sequence[int]) -> WindowState[State]:
        """See `TextState`."""
        return WindowState(self.inner.reorder(rows), self.length, self.recent[np.asarray(rows, dtype=np.int64)])


class Window(Generic[State]):
    """A `ContinuationModel` for texts that are longer than the context of its model.

    When a text fills the window, the model starts again from an empty state and reads the last half of the window; the
    text before it is forgotten. The same holds for a prompt: of tokens that do not fit, only the last are read, half a
    window.

    Args:
        model: the language model.
        size: number of tokens that the model may read in sequence, at least 2.
        on_full: called each time that text is forgotten.
    """

    def __init__(self, model: ContinuationModel[State], size: int, on_full: Callable[[], None] = lambda: None) -> None:
        assert size >= 2
        self._model, self._size, self._half = model, size, size // 2
        self._on_full = on_full

    @property
    def vocabulary(self) -> int:
        """See `ContinuationModel`."""
        return self._model.vocabulary

    def start(self, rows: int) -> WindowState[State]:
        """See `ContinuationModel`."""
        return WindowState(self._model.start(rows), 0, np.empty((rows, 0), dtype=np.int64))

    def read(self, tokens: Int64[np.ndarray, "N T"], state: WindowState[State]) -> WindowState[State]:
        """See `ContinuationModel`."""
        after = WindowState(state.inner, state.length + tokens.shape[1], self._recent(state, tokens))
        if after.length > self._size:
            return self._again(after)
        return WindowState(self._model.read(tokens, state.inner), after.length, after.recent)

    def extend(
        self,
        last: Int64[np.ndarray, " N"],
        state: WindowState[State],
        uniform: Float64[np.ndarray, "N T"],
        config: ContinuationConfig,
        occurred: Bool[np.ndarray, "N V"] | None,
    ) -> Extension[WindowState[State]]:
        """See `ContinuationModel`."""
        state = self._with_room(state)
        extension = self._model.extend(last, state.inner, uniform[:, : self._size - state.length], config, occurred)
        # [N, 1] and [N, T - 1] -> [N, T]: the tokens that the model has read
        read = np.concatenate([last[:, None], extension.tokens[:, :-1]], 1)
        after = WindowState(extension.state, state.length + read.shape[1], self._recent(state, read))
        return Extension(extension.tokens, extension.log_probabilities, after)

    def step(
        self, token: Int64[np.ndarray, " N"], state: WindowState[State]
    ) -> tuple[torch.Tensor, WindowState[State]]:
        """See `ContinuationModel`."""
        state = self._with_room(state)
        logits, inner = self._model.step(token, state.inner)
        return logits, WindowState(inner, state.length + 1, self._recent(state, token[:, None]))

    def _with_room(self, state: WindowState[State]) -> WindowState[State]:
        return self._again(state) if state.length == self._size else state

    def _again(self, state: WindowState[State]) -> WindowState[State]:
        self._on_full()
        rows, length = state.recent.shape
        return WindowState(self._model.read(state.recent, self._model.start(rows)), length, state.recent)

    def _recent(self, state: WindowState[State], tokens: Int64[np.ndarray, "N T"]) -> Int64[np.ndarray, "N R"]:
        return np.concatenate([state.recent, tokens], 1)[:, -self._half :]


class Extended(NamedTuple):
    """Further tokens of one text.

    Attributes:
        row: index of the text.
        tokens: token ids; EOS, which ends the text, can only be the last one.
        log_probabilities: see `Extension`.
    """

    row: int
    tokens: list[int]
    log_probabilities: list[float]


class Continuation(Generic[State]):
    """Running continuation of a prompt by sampling or by greedy search: several texts, extended together.

    Sample i depends on the prompt, the seed and i only.

    Args:
        model: the language model.
        prompt: token ids of the beginning of the text, at least one, such as BOS.
        config: settings; `max_tokens` is left to the caller. A beam must be 1: greedy search.

    Attributes:
        running: indices of the texts that have not ended.

    Raises:
        ModelError: if the vocabulary contains only special tokens.
    """

    def __init__(self, model: ContinuationModel[State], prompt: Sequence[int], config: ContinuationConfig) -> None:
        assert config.beam in (None, 1)
        check_vocabulary(model)
        self._model, self._config = model, config
        self._key = random_key(prompt)
        self._position = 0
        self._state = read_prompt(model, prompt, config.outputs)
        # [N], and [R] below: the R texts that are running
        self._last = np.full(config.outputs, prompt[-1], dtype=np.int64)
        self.running = list(range(config.outputs))
        # [N, BLOCK]: the random numbers of the next positions
        self._uniform = np.zeros((config.outputs, BLOCK))
        self._occurred: Bool[np.ndarray, "R V"] | None = None
        if config.repetition_penalty > 1:
            self._occurred = np.zeros((config.outputs, model.vocabulary), dtype=np.bool_)
            self._occurred[:, np.asarray(prompt, dtype=np.int64)] = True

    def advance(self, count: int = 1) -> list[Extended]:
        """Return the next tokens of each running text, at least one and at most `count`; a text ends after EOS.

        The tokens do not depend on `count`.

        Raises:
            FloatingPointError: if the model computes values that are not finite.
        """
        assert self.running
        index = self._position % BLOCK
        if index == 0 and self._config.beam is None:
            seed = self._config.sampling.seed
            streams = [uniforms(seed, self._key, i, BLOCK, self._position) for i in range(len(self._uniform))]
            self._uniform = np.stack(streams)
        uniform = self._uniform[self.running, index : index + count]
        extension = self._model.extend(self._last, self._state, uniform, self._config, self._occurred)
        self._state, self._last = extension.state, extension.tokens[:, -1].copy()
        self._position += extension.tokens.shape[1]
        if self._occurred is not None:
            np.put_along_axis(self._occurred, extension.tokens, True, 1)
        texts = []
        rows = zip(self.running, extension.tokens.tolist(), extension.log_probabilities.tolist(), strict=True)
        for row, tokens, log_probabilities in rows:
            length = tokens.index(EOS) + 1 if EOS in tokens else len(tokens)
            texts.append(Extended(row, tokens[:length], log_probabilities[:length]))
        self.end([text.row for text in texts if text.tokens[-1] == EOS])
        return texts

    def end(self, rows: Collection[int]) -> None:
        """End these texts: they are not extended further."""
        keep = [index for index, row in enumerate(self.running) if row not in rows]
        if len(keep) == len(self.running):
            return
        self.running = [self.running[index] for index in keep]
        self._last = self._last[keep]
        if self._occurred is not None:
            self._occurred = self._occurred[keep]
        if keep:
            self._state = self._state.reorder(keep)


def check_vocabulary(model: ContinuationModel[State]) -> None:
    """Check that the vocabulary contains more than special tokens.

    Raises:
        ModelError: if it does not.
    """
    if model.vocabulary <= len(NEVER_GENERATED) + 1:
        raise ModelError(EMPTY_HYPOTHESES)


def read_prompt(model: ContinuationModel[State], prompt: Sequence[int], rows: int) -> State:
    """Return the state of several equal texts before the last token of `prompt`, which has at least one token."""
    state = model.read(np.asarray([prompt[:-1]], dtype=np.int64), model.start(1))
    return state if rows == 1 else state.reorder([0] * rows)
