"""Search on the native engine for sentences that are submitted while it runs."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, Self

from dragoman.native.requests import engine_request, hypotheses_of, search_settings, too_long
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput, require_outputs

# Receives the hypotheses of a sentence, best first, or the error that its search has raised.
Done = Callable[[list[Hypothesis] | Exception], None]
# Receives the tokens of the best unfinished hypothesis so far.
Progress = Callable[[tuple[int, ...]], None]


class _Callbacks(NamedTuple):
    done: Done
    progress: Progress | None


class LiveSearch:
    """Search for sentences that are submitted at any time, from any thread; made by `NativeBackend.live`.

    A sentence joins a batch at the next position and leaves it when it is done. Its result equals that of
    `NativeBackend.search`, whatever else is in progress. Threads without work sleep. Callbacks are called one after
    the other in a thread of this object, so they must return soon. Buffers are kept until `close`, which the end of
    the interpreter calls.

    Sentences of several groups (such as requests or users) share the places fairly: a free place goes to a group
    without a sentence in progress, else to the groups in rotation. The first sentence of a group does not wait for
    those of others to finish while less than a quarter more places than `batch_sentences` are in use. Groups that have
    used little of the engine so far, as those of short texts have, advance several positions for one of the others.

    Not available in a child process after a fork: make a new one there.

    Args:
        module: the extension module.
        model: the model in the extension module.
        threads: number of threads.
        batch_sentences: see `NativeBackend`.
        batch_tokens: see `NativeBackend`.
        shortlist: the shortlist in the extension module; None for the whole vocabulary.

    Example:
        >>> from dragoman import Translator
        >>> from dragoman.search.config import SearchConfig
        >>> from dragoman.search.results import SearchInput
        >>> backend = Translator.load("models/mine", device="cpu").backend
        >>> with backend.live() as live:
        ...     ticket = live.submit(SearchInput([5, 6, 7], []), SearchConfig(), print)
        ...     live.cancel(ticket)
        True
    """

    def __init__(
        self,
        module: ModuleType,
        model: Any,
        *,
        threads: int,
        batch_sentences: int,
        batch_tokens: int,
        shortlist: Any | None,
    ) -> None:
        self._engine = module.LiveSearch(
            model=model,
            threads=threads,
            batch_sentences=batch_sentences,
            batch_tokens=batch_tokens,
            shortlist=shortlist,
        )
        self._tickets = itertools.count()
        self._callbacks: dict[int, _Callbacks] = {}
        # The thread refers to no more than it needs, so that an object that is no longer used is closed.
        delivery = threading.Thread(
            target=_deliver, args=(self._engine, self._callbacks), name="live search", daemon=True
        )
        delivery.start()
        self._close = weakref.finalize(self, _close, self._engine, delivery)

    def submit(
        self,
        row: SearchInput,
        config: SearchConfig,
        done: Done,
        *,
        group: int = 0,
        progress: Progress | None = None,
    ) -> int:
        """Search for a sentence; return its ticket at once.

        Args:
            row: the sentence.
            config: settings of the search; those of other sentences may differ.
            done: called once, with the hypotheses (`n_best` at most, best first) or with the error of this sentence:
                CorpusError if it is longer than the learned positions of the model, FloatingPointError if the model
                computes a value that is not finite, ModelError if there is no output, RuntimeError if the search was
                closed.
            group: number of the group with which the sentence shares its turn.
            progress: called with the tokens of the best unfinished hypothesis, at most once for each position. A
                report that has not been delivered is replaced by the next one. Later tokens may replace earlier ones.

        Raises:
            RuntimeError: if the search is closed, or was made before a fork.
            ValueError: if a token is not in the vocabulary.
        """
        ticket = next(self._tickets)
        self._callbacks[ticket] = _Callbacks(done, progress)
        try:
            self._engine.submit(
                ticket=ticket,
                group=group,
                **engine_request(row, config)._asdict(),
                **search_settings(config),
                watched=progress is not None,
            )
        except BaseException:
            del self._callbacks[ticket]
            raise
        return ticket

    def cancel(self, ticket: int) -> bool:
        """Give up a sentence: its place is free at the next position.

        Returns:
            True if `done` will not be called; False if it has been called, or is being called.
        """
        if self._callbacks.pop(ticket, None) is None:
            return False
        self._engine.cancel(ticket)
        return True

    def signs(self) -> list[int | None]:
        """Return a sign of life of each thread: a number that changes while the thread works, None while it rests.

        A thread that works gives a sign every few milliseconds, however large the model and the batch are. The last
        sign is that of the sentences for which no thread works: None if there are none, as it should be.
        """
        threads = [None if sign < 0 else sign for sign in self._engine.signs()]
        oldest = list(self._callbacks)[:1]
        forgotten = oldest[0] if oldest and all(sign is None for sign in threads) else None
        return [*threads, forgotten]

    def close(self) -> None:
        """End the threads. Sentences that are not finished get a RuntimeError. Further calls do nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close(engine: Any, delivery: threading.Thread) -> None:
    engine.close()
    # A callback may close the search, or drop the last reference to it.
    if delivery is not threading.current_thread():
        delivery.join()


def _deliver(engine: Any, callbacks: dict[int, _Callbacks]) -> None:
    """Call the callbacks until the engine is closed."""
    while (outcomes := engine.wait()) is not None:
        for ticket, tokens, result in outcomes:
            try:
                if tokens is not None:
                    called = callbacks.get(ticket)
                    if called is not None and called.progress is not None:
                        called.progress(tuple(tokens))
                elif (called := callbacks.pop(ticket, None)) is not None:
                    called.done(_converted(result))
            except Exception as error:
                # An error in a callback is reported like that of a thread; the other sentences continue.
                threading.excepthook(
                    threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
                )


def _converted(result: list[Any] | Exception) -> list[Hypothesis] | Exception:
    """Return the hypotheses, or the error, as `NativeBackend.search` returns or raises it."""
    if isinstance(result, IndexError):
        return too_long(result)
    if isinstance(result, Exception):
        return result
    try:
        [hypotheses] = require_outputs([hypotheses_of(result)])
    except Exception as error:
        return error
    return hypotheses
