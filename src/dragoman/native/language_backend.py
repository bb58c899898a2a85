"""Language models on the native engine: prompts are read at once, further tokens with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dragoman.errors import CorpusError
from dragoman.models.config.language import LanguageConfig
from dragoman.native import Build, Precision, engine_settings
from dragoman.native.loading import (
    MOST_SHARING,
    MOST_THREADS,
    SHARED_BYTES,
    ReadWeight,
    check_between,
    load_into_engine,
)
from dragoman.search.config import ContinuationConfig
from dragoman.text.subwords import EOS, NEVER_GENERATED
from dragoman.threads import available_cpus

# Texts are shared among threads if the number of tokens times the size of the weights is at least this number of bytes.
# Below it, starting a thread takes longer than it saves.
THREAD_BYTES = 50_000_000

Tokens = NDArray[np.int64]


@dataclass(frozen=True)
class NativeTextState:
    """State of B texts after the tokens that a `NativeLanguageModel` has read. Immutable.

    Attributes:
        inner: keys and values, in the extension module; states of the same text share them.
    """

    inner: Any

    @property
    def lengths(self) -> list[int]:
        """The number of tokens that each text has read."""
        lengths: list[int] = self.inner.lengths
        return lengths

    def reorder(self, rows: Iterable[int]) -> NativeTextState:
        """Keep the rows `rows`, which may repeat or leave rows out."""
        return NativeTextState(self.inner.reorder([int(row) for row in rows]))

    def last(self, positions: int) -> NativeTextState:
        """Forget all but at most this number of last positions, to which later tokens cannot attend then."""
        return NativeTextState(self.inner.last(positions))


class Generated(NamedTuple):
    """Tokens that continue B texts.

    Attributes:
        tokens: [B, T], token ids. EOS ends a text, and fills the rest of its row.
        log_probabilities: [B, T], natural logarithms of the model's probabilities of the tokens, before temperature,
            penalty and truncation; 0 after the end of a text.
        state: state of the texts before their last token, which has not been read.
    """

    tokens: Tokens
    log_probabilities: NDArray[np.float32]
    state: NativeTextState


class NativeLanguageModel:
    """A language model on the native engine; see `models.language_model.LanguageModel`.

    Inputs and outputs are NumPy arrays. The values of a text do not depend on the other texts of a batch. The texts of
    a state may differ in length.

    Args:
        directory: the model directory.
        config: the settings of the model.
        build: the build of the native engine.
        precision: the precision of matrix products.
        threads: largest number of threads. Defaults to one per core.
        shared_bytes: smallest size of a product, in bytes of weights times rows, that several threads share.
        thread_bytes: smallest size of a call, in bytes of weights times tokens, that more than one thread works on.

    Raises:
        SettingsError: if a number is out of range, or the native engine does not support the model.
        ModelError: if the weights are missing, damaged, or do not fit the settings.
        FloatingPointError: if the weights are not finite.
    """

    def __init__(
        self,
        directory: Path,
        config: LanguageConfig,
        build: Build,
        precision: Precision,
        *,
        threads: int | None = None,
        shared_bytes: int = SHARED_BYTES,
        thread_bytes: int = THREAD_BYTES,
    ) -> None:
        check_between("threads", threads, MOST_THREADS)
        self.vocabulary, self.max_context = config.vocabulary, config.max_context
        self.threads = threads or available_cpus()
        self.shared_bytes, self.thread_bytes = shared_bytes, thread_bytes
        self._build, self._precision = build, precision

        def build_model(read: ReadWeight) -> Any:
            return build.module.LanguageModel(settings=engine_settings(config), weights=read, precision=precision)

        self._model = load_into_engine(directory, config, build_model)

    @property
    def description(self) -> str:
        """A short text with the engine's instruction set, precision and threads."""
        return f"native, {self._build.instructions}, {self._precision}, {self.threads} threads"

    @property
    def weight_bytes(self) -> int:
        """Size of the packed weights in memory, in bytes."""
        return int(self._model.bytes)

    def start(self, rows: int) -> NativeTextState:
        """Return the state before the first token of `rows` texts."""
        return NativeTextState(self._model.start(rows))

    def read(self, tokens: Tokens, state: NativeTextState) -> tuple[NDArray[np.float32], NativeTextState]:
        """Read T further tokens of each text.

        Args:
            tokens: [B, T], the tokens after those that have been read, at least one per text.
            state: the state before these tokens.

        Returns:
            The logits [B, V] of the next token, and the state after these tokens.

        Raises:
            CorpusError: the texts are longer than the positions of the model allow.
            FloatingPointError: the model computes a value that is not finite.
        """
        return self._read(tokens, state, every=False)

    def read_all(self, tokens: Tokens, state: NativeTextState) -> tuple[NDArray[np.float32], NativeTextState]:
        """As `read`, but return the logits [B, T, V] after each of the tokens."""
        return self._read(tokens, state, every=True)

    def step(self, token: Tokens, state: NativeTextState) -> tuple[NDArray[np.float32], NativeTextState]:
        """Read one token [B] of each text; return the logits [B, V] of the next token, and the state after this one."""
        return self.read(np.asarray(token)[:, None], state)

    def score(
        self, tokens: Tokens, targets: Tokens, state: NativeTextState
    ) -> tuple[NDArray[np.float32], NativeTextState]:
        """Return the natural logarithms [B, T] of the probabilities of `targets`, and the state after `tokens`.

        Args:
            tokens: [B, T], the tokens to read.
            targets: [B, T], where targets[b, t] is the token after tokens[b, t].
            state: the state before these tokens.

        Raises:
            CorpusError: the texts are longer than the positions of the model allow.
            FloatingPointError: the model computes a value that is not finite.
        """
        rows, length = np.shape(tokens)
        with _corpus_errors():
            scores, inner = self._model.score(tokens, targets, state.inner, **self._division(rows, length, length))
        return scores, NativeTextState(inner)

    def generate(
        self,
        token: Tokens,
        state: NativeTextState,
        uniforms: NDArray[np.float64],
        config: ContinuationConfig,
        occurred: NDArray[np.bool_] | None = None,
    ) -> Generated:
        """Continue texts by T tokens, sampled as by `search.sampling.draw`, or the most probable ones.

        To continue further, pass the last of the tokens and the state of the result. No token is read more than once,
        so that several calls cost no more than one call.

        Args:
            token: [B], the last token of each text, which has not been read.
            state: the state before these tokens.
            uniforms: [B, T], random numbers in [0, 1), one for each token; ignored if `config.beam` is 1.
            config: temperature, top_k, top_p, min_p and the repetition penalty; a beam of 1 takes the most probable
                token.
            occurred: [B, V], True for the tokens that occurred in the text; needed for a repetition penalty.

        Raises:
            CorpusError: the texts are longer than the positions of the model allow.
            FloatingPointError: the model computes a value that is not finite.
        """
        assert config.beam in (None, 1)
        sampling = config.sampling
        rows, length = np.shape(uniforms)
        with _corpus_errors():
            tokens, log_probabilities, inner = self._model.generate(
                token,
                state.inner,
                uniforms=uniforms,
                sampling={
                    "greedy": config.beam == 1,
                    "temperature": sampling.temperature,
                    "top_k": min(sampling.top_k or self.vocabulary, self.vocabulary),
                    "top_p": sampling.top_p,
                    "min_p": sampling.min_p,
                    "repetition_penalty": config.repetition_penalty,
                },
                occurred=occurred,
                never=list(NEVER_GENERATED),
                end=EOS,
                **self._division(rows, 1, length),
            )
        return Generated(tokens, log_probabilities, NativeTextState(inner))

    def _read(
        self, tokens: Tokens, state: NativeTextState, *, every: bool
    ) -> tuple[NDArray[np.float32], NativeTextState]:
        rows, length = np.shape(tokens)
        with _corpus_errors():
            logits, inner = self._model.read(tokens, state.inner, all=every, **self._division(rows, length, length))
        return logits, NativeTextState(inner)

    def _division(self, rows: int, together: int, length: int) -> dict[str, int]:
        """Return how many threads work on texts of their own, and how many share the products of each.

        Args:
            rows: number of texts.
            together: number of tokens of a text that one product multiplies.
            length: number of tokens of a text in the call.
        """
        if self.threads == 1 or rows * length * self.weight_bytes < self.thread_bytes:
            return {"threads": 1, "team": 1}
        workers = max(1, min(self.threads, rows))
        product = self.weight_bytes * together * (rows // workers)
        return {
            "threads": workers,
            "team": min(self.threads // workers, MOST_SHARING) if product >= self.shared_bytes else 1,
        }


@contextmanager
def _corpus_errors() -> Iterator[None]:
    """Raise the error of the extension module for a text that is too long as a `CorpusError`."""
    try:
        yield
    except IndexError as error:
        raise CorpusError(
            f"{error}: shorten the text, or train with rotary positions or a larger max_positions"
        ) from error
