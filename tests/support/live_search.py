"""Results of a `LiveSearch`, as a test waits for them."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

from dragoman.native.live_search import Done, LiveSearch
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput

SECONDS = 60.0


class Results:
    """What a search has called back, in order."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.results: dict[Any, list[Hypothesis] | Exception] = {}

    def done(self, name: object) -> Done:
        """Return a callback that records a result under a name, which must have none yet."""

        def record(result: list[Hypothesis] | Exception) -> None:
            with self._changed:
                assert name not in self.results
                self.results[name] = result
                self._changed.notify_all()

        return record

    def wait(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS)

    def of(self, names: Iterable[object]) -> list[list[Hypothesis] | Exception]:
        """Wait for results, and return them."""
        names = list(names)
        self.wait(lambda: all(name in self.results for name in names))
        return [self.results[name] for name in names]


def search_live(
    live: LiveSearch, inputs: list[SearchInput], configs: list[SearchConfig], groups: int = 1
) -> list[list[Hypothesis] | Exception]:
    """Return the result of each input, submitted together in several groups."""
    results = Results()
    for i, (row, config) in enumerate(zip(inputs, configs, strict=True)):
        live.submit(row, config, results.done(i), group=i % groups)
    return results.of(range(len(inputs)))
