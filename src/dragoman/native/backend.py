"""Backend of the native engine: one thread per core, each with a batch of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dragoman.models.config.transformer import TransformerConfig
from dragoman.native import Build, Precision, engine_settings
from dragoman.native.live_search import LiveSearch
from dragoman.native.loading import (
    MOST_SHARING,
    MOST_THREADS,
    SHARED_BYTES,
    ReadWeight,
    check_between,
    load_into_engine,
)
from dragoman.native.requests import engine_request, hypotheses_of, search_settings, too_long
from dragoman.search.config import DEFAULT_BATCH_TOKENS, MAX_BATCH_TOKENS, SearchConfig, check_batch_tokens
from dragoman.search.results import Hypothesis, SearchInput, require_outputs
from dragoman.text.subwords import BOS, EOS, NEVER_GENERATED
from dragoman.threads import available_cpus

# Number of sentences in progress per thread. Larger batches make matrix products more efficient, but need more of the
# processor's cache.
BATCH_SENTENCES = 32


class Shortlist(Protocol):
    """Interface of a shortlist; see `translation.shortlist.Shortlist`."""

    @property
    def always(self) -> NDArray[np.int64]: ...

    @property
    def likely(self) -> NDArray[np.int64]: ...

    @property
    def starts(self) -> NDArray[np.int64]: ...


class NativeBackend:
    """Backend of one model on the native engine.

    The weights are packed for the instruction set once, when the model is loaded. A thread translates up to
    `batch_sentences` sentences at a time, each at its own target position; a finished sentence is replaced by the next
    one. The result for a sentence does not depend on the other sentences: its values are always computed in the same
    order.

    Args:
        directory: the model directory.
        config: the settings of the model.
        build: the build of the native engine, from `select_engine`.
        precision: the precision of matrix products, from `select_engine`.
        threads: number of threads. Defaults to one per core.
        batch_sentences: largest number of sentences in a thread's batch.
        batch_tokens: largest number of source tokens times beam in a thread's batch. A longer sentence is searched
            alone.
        shared_bytes: smallest size of the weights, in bytes, at which several threads share the products of one
            sentence.
        shortlist: restricts each sentence to a part of the vocabulary; probabilities are normalised over that part.

    Raises:
        SettingsError: if a number is out of range, or the native engine does not support the model.
        ModelError: if the weights are missing, damaged, or do not fit the settings.
        FloatingPointError: if the weights are not finite.
    """

    def __init__(
        self,
        directory: Path,
        config: TransformerConfig,
        build: Build,
        precision: Precision,
        *,
        threads: int | None = None,
        batch_sentences: int = BATCH_SENTENCES,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
        shared_bytes: int = SHARED_BYTES,
        shortlist: Shortlist | None = None,
    ) -> None:
        check_batch_tokens(batch_tokens)
        check_between("threads", threads, MOST_THREADS)
        check_between("batch_sentences", batch_sentences, MAX_BATCH_TOKENS)
        self.threads = threads or available_cpus()
        self.batch_sentences, self.batch_tokens = batch_sentences, batch_tokens
        self.shared_bytes = shared_bytes
        self._build, self._precision = build, precision

        def build_model(read: ReadWeight) -> Any:
            return build.module.Model(
                settings=engine_settings(config),
                special_tokens={"bos": BOS, "eos": EOS, "never_generated": NEVER_GENERATED},
                weights=read,
                precision=precision,
            )

        self._model = load_into_engine(directory, config, build_model)
        self._shortlist = shortlist and self._model.shortlist(shortlist.always, shortlist.likely, shortlist.starts)

    @property
    def description(self) -> str:
        """See `Backend`."""
        shortlist = ", shortlist" if self._shortlist else ""
        return f"native, {self._build.instructions}, {self._precision}, {self.threads} threads{shortlist}"

    @property
    def weight_bytes(self) -> int:
        """Size of the packed weights in memory, in bytes."""
        return int(self._model.bytes)

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        """See `Backend`.

        Raises:
            CorpusError: if a sentence is longer than the learned positions of the model.
            FloatingPointError: if the model computes a value that is not finite.
            ModelError: if the vocabulary or the shortlist allows no output.
        """
        if not inputs:
            return []
        requests = [engine_request(row, config) for row in inputs]
        workers = min(self.threads, len(inputs))
        try:
            outputs = self._model.search(
                sources=[request.source for request in requests],
                prefixes=[request.prefix for request in requests],
                minimum=[request.minimum for request in requests],
                maximum=[request.maximum for request in requests],
                **search_settings(config),
                batch_sentences=self.batch_sentences,
                batch_tokens=self.batch_tokens,
                threads=workers,
                team=min(self.threads // workers, MOST_SHARING) if self.weight_bytes >= self.shared_bytes else 1,
                shortlist=self._shortlist,
            )
        except IndexError as error:
            raise too_long(error) from error
        return require_outputs([hypotheses_of(output) for output in outputs])

    def live(self) -> LiveSearch:
        """Return a search that takes sentences while it runs, with the weights and the settings of this backend.

        It has threads of its own, each of which translates whole sentences: `shared_bytes` has no effect.
        """
        return LiveSearch(
            self._build.module,
            self._model,
            threads=self.threads,
            batch_sentences=self.batch_sentences,
            batch_tokens=self.batch_tokens,
            shortlist=self._shortlist,
        )

    def logits(self, source: Sequence[int], target: Sequence[int]) -> NDArray[np.float32]:
        """Return the logits [T + 1, V] after BOS and after each of the T target tokens.

        EOS is appended to the source.
        """
        logits: NDArray[np.float32] = self._model.logits([*source, EOS], list(target))
        return logits
