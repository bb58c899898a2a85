"""Search for sentences that come one by one: the interface, and an implementation for every backend."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.translation.backend import Backend
from dragoman.translation.hybrid_backend import HybridBackend

# Called from a thread of the search, with the hypotheses, best first, or with the error.
Done = Callable[[list[Hypothesis] | Exception], None]
# Sentences of a batch. More would let short requests wait longer for the batch that runs.
BATCH_SENTENCES = 32
# Seconds after which a batch is regarded as hung: its backend gives no signs of life.
BATCH_SECONDS = 600.0


class SentenceSearch(Protocol):
    """Searches for the outputs of sentences that come one by one."""

    def submit(self, row: SearchInput, config: SearchConfig, done: Done, *, group: int = 0) -> int:
        """Add a sentence and return its ticket; groups share the engine equally."""
        ...

    def cancel(self, ticket: int) -> bool:
        """Give a sentence up, if it is not done; return True if `done` will not be called."""
        ...

    def signs(self) -> Sequence[int | None]:
        """Return signs of life: numbers that change while there is progress, None where there is no work.

        A number that does not change within seconds means that a part of the search hangs.
        """
        ...

    def close(self) -> None:
        """Give all sentences up and end the threads."""
        ...


@dataclass(frozen=True)
class _Waiting:
    ticket: int
    row: SearchInput
    config: SearchConfig
    done: Done


class BatchedSearch:
    """Search that translates what is waiting as a batch, in a thread; for backends whose batches cannot be joined.

    Args:
        backend: the models and the engine that runs them.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._changed = threading.Condition()
        self._waiting: dict[int, _Waiting] = {}
        self._tickets = 0
        # When the batch that runs began; None between batches.
        self._began: float | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="search", daemon=True)
        self._thread.start()

    def submit(self, row: SearchInput, config: SearchConfig, done: Done, *, group: int = 0) -> int:
        """See `SentenceSearch`; sentences are taken in order, whatever their group."""
        with self._changed:
            self._tickets += 1
            self._waiting[self._tickets] = _Waiting(self._tickets, row, config, done)
            self._changed.notify()
            return self._tickets

    def cancel(self, ticket: int) -> bool:
        """See `SentenceSearch`; a sentence of the batch that runs is not stopped."""
        with self._changed:
            return self._waiting.pop(ticket, None) is not None

    def signs(self) -> Sequence[int | None]:
        """See `SentenceSearch`; a batch may run for 10 minutes."""
        began = self._began
        late = began is not None and time.monotonic() - began > BATCH_SECONDS
        return [0 if late else None]

    def close(self) -> None:
        """See `SentenceSearch`; waits for the batch that runs."""
        with self._changed:
            self._closed = True
            self._waiting.clear()
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._next_batch():
            self._began = time.monotonic()
            for sentence, result in zip(batch, self._results(batch), strict=True):
                sentence.done(result)
            self._began = None

    def _next_batch(self) -> list[_Waiting]:
        """Wait for sentences, and return those with the settings of the first; none when this is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if self._closed:
                return []
            config = next(iter(self._waiting.values())).config
            batch = [sentence for sentence in self._waiting.values() if sentence.config == config][:BATCH_SENTENCES]
            for sentence in batch:
                del self._waiting[sentence.ticket]
            return batch

    def _results(self, batch: Sequence[_Waiting]) -> Sequence[list[Hypothesis] | Exception]:
        try:
            return self._backend.search([sentence.row for sentence in batch], batch[0].config)
        except Exception as error:
            # One sentence, such as one that is too long, must not fail the others.
            if len(batch) == 1:
                return [error]
            return [result for sentence in batch for result in self._results([sentence])]


def search_of(backend: Backend) -> SentenceSearch:
    """Return the search for sentences that a backend offers. It starts threads: call it after a fork."""
    return backend.live() if isinstance(backend, HybridBackend) else BatchedSearch(backend)
