"""Search for sentences that come one by one, on a backend that searches batches."""

import threading
from collections.abc import Sequence
from queue import SimpleQueue

import pytest

from dragoman.errors import CorpusError
from dragoman.search.config import SearchConfig
from dragoman.search.results import Hypothesis, SearchInput
from dragoman.serving.workers.sentence_search import BATCH_SENTENCES, BatchedSearch

CONFIG, OTHER = SearchConfig(beam=1), SearchConfig(beam=2)
Outcome = list[Hypothesis] | Exception


class EchoBackend:
    """A backend whose output is the source; it waits for `go` before each batch, and refuses the token 0."""

    description = "echo"
    sampler = scorer = inspectable = None

    def __init__(self) -> None:
        self.go = threading.Event()
        self.began: SimpleQueue[None] = SimpleQueue()
        self.batches: list[list[int]] = []

    def search(self, inputs: Sequence[SearchInput], config: SearchConfig) -> list[list[Hypothesis]]:
        self.began.put(None)
        assert self.go.wait(10)
        self.batches.append([row.source[0] for row in inputs])
        if any(row.source == [0] for row in inputs):
            raise CorpusError("too long")
        return [
            [Hypothesis(tokens=tuple(row.source), log_probability=-1.0, score=-1.0, finished=True)] for row in inputs
        ]


def submit(search: BatchedSearch, token: int, config: SearchConfig = CONFIG) -> tuple[int, SimpleQueue[Outcome]]:
    outcome: SimpleQueue[Outcome] = SimpleQueue()
    return search.submit(SearchInput([token], []), config, outcome.put), outcome


def token(outcome: SimpleQueue[Outcome]) -> int:
    result = outcome.get(timeout=10)
    assert isinstance(result, list)
    return result[0].tokens[0]


def test_what_waits_becomes_a_batch_of_one_config() -> None:
    backend = EchoBackend()
    search = BatchedSearch(backend)
    outcomes = [submit(search, 1)[1]]
    backend.began.get(timeout=10)
    outcomes += [submit(search, number, OTHER if number == 3 else CONFIG)[1] for number in (2, 3, 4)]
    cancelled, _ = submit(search, 5)
    search.cancel(cancelled)
    backend.go.set()
    assert [token(outcome) for outcome in outcomes] == [1, 2, 3, 4]
    assert backend.batches == [[1], [2, 4], [3]]
    search.close()


def test_batches_are_bounded() -> None:
    backend = EchoBackend()
    search = BatchedSearch(backend)
    outcomes = [submit(search, 1)[1]]
    backend.began.get(timeout=10)
    outcomes += [submit(search, 2)[1] for _ in range(BATCH_SENTENCES + 1)]
    backend.go.set()
    for outcome in outcomes:
        token(outcome)
    assert list(map(len, backend.batches)) == [1, BATCH_SENTENCES, 1]
    search.close()


def test_an_error_fails_only_its_sentence() -> None:
    backend = EchoBackend()
    search = BatchedSearch(backend)
    outcomes = [submit(search, 1)[1]]
    backend.began.get(timeout=10)
    outcomes += [submit(search, number)[1] for number in (2, 0, 3)]
    backend.go.set()
    assert [token(outcomes[number]) for number in (0, 1, 3)] == [1, 2, 3]
    assert isinstance(outcomes[2].get(timeout=10), CorpusError)
    search.close()


def test_closing_gives_up_what_waits() -> None:
    backend = EchoBackend()
    search = BatchedSearch(backend)
    _, running = submit(search, 1)
    backend.began.get(timeout=10)
    _, waiting = submit(search, 2)
    backend.go.set()
    search.close()
    assert token(running) == 1
    # It may have begun before the search was closed; if it was given up, it is never answered.
    assert backend.batches in ([[1]], [[1], [2]])
    assert waiting.empty() == (backend.batches == [[1]])


def test_a_batch_that_takes_too_long_gives_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = EchoBackend()
    search = BatchedSearch(backend)
    assert list(search.signs()) == [None]
    _, outcome = submit(search, 1)
    backend.began.get(timeout=10)
    assert list(search.signs()) == [None]
    monkeypatch.setattr("dragoman.serving.workers.sentence_search.BATCH_SECONDS", -1.0)
    assert list(search.signs()) == list(search.signs()) == [0]
    backend.go.set()
    token(outcome)
    search.close()
    assert list(search.signs()) == [None]
