"""A server under load: what it answers while its processes end, its models are replaced, and its queue is full."""

import concurrent.futures
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dragoman.files import write_atomically
from tests.support.serving_app import request, wait_until
from tests.support.serving_program import Address, memory_of, metric, served, translated, workers_of
from tests.support.small_translator import WORDS
from tests.support.word_model import word_after, write_word_model

# Several lines each, so that the answers differ in many ways.
TEXTS = ["\n".join(WORDS[number * step % len(WORDS)] for number in range(1, 5)) for step in range(1, len(WORDS))]
UNLIMITED = ("--requests-per-minute", "1000000", "--characters-per-minute", "1000000000")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose translation of a word is the next one."""
    return write_word_model(tmp_path_factory.mktemp("model"), 1)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose translation of a word is the second one after it."""
    return write_word_model(tmp_path_factory.mktemp("other"), 2)


def expected(text: str, shift: int = 1) -> str:
    return "\n".join(word_after(word, shift) for word in text.split("\n"))


def translates(address: Address, shift: int) -> bool:
    """Return whether the server translates as the model with this shift does."""
    return all(translated(address, text) == (200, expected(text, shift)) for text in TEXTS)


class Load:
    """Clients that send all texts again and again, in threads, and note each answer.

    Args:
        address: the address of the server.
        clients: the number of clients.
    """

    def __init__(self, address: Address, clients: int) -> None:
        self._address = address
        self._ended = False
        self.count = 0
        self._threads = concurrent.futures.ThreadPoolExecutor(clients)
        self._clients = [self._threads.submit(self._send, number) for number in range(clients)]

    def _send(self, first: int) -> list[tuple[str, int, str]]:
        found: list[tuple[str, int, str]] = []
        while not self._ended:
            text = TEXTS[(first + len(found)) % len(TEXTS)]
            found.append((text, *translated(self._address, text)))
            self.count += 1
        return found

    def end(self) -> list[tuple[str, int, str]]:
        """Return text, status and answer of each request."""
        self._ended = True
        with self._threads:
            return [answer for client in self._clients for answer in client.result()]


@pytest.fixture
def load() -> Iterator[Callable[[Address, int], Load]]:
    loads: list[Load] = []

    def start(address: Address, clients: int) -> Load:
        loads.append(Load(address, clients))
        return loads[-1]

    yield start
    for each in loads:
        each.end()


def test_a_killed_worker_fails_only_its_requests(
    model: Path, tmp_path: Path, load: Callable[[Address, int], Load]
) -> None:
    with served(f"{model}=en-de", "--data", tmp_path, "--workers", "2", *UNLIMITED) as (process, address):
        clients = load(address, 8)
        for killed in range(3):
            wait_until(lambda before=clients.count: clients.count > before + 100, seconds=60)  # type: ignore[misc]
            os.kill(workers_of(process)[0], signal.SIGKILL)
            wait_until(lambda restarts=killed + 1: metric(address, "dragoman_worker_restarts") == restarts)  # type: ignore[misc]
            wait_until(lambda: metric(address, "dragoman_workers") == 2, seconds=5)
        assert request(address, "GET", "/ready")[0] == 200
        found = clients.end()
    assert {status for _, status, _ in found} <= {200, 503}
    assert all(answer == expected(text) for text, status, answer in found if status == 200)
    # At most those that were in flight.
    assert sum(status == 503 for _, status, _ in found) <= 3 * 8


def test_a_replaced_model_is_taken_in(
    model: Path, other: Path, tmp_path: Path, load: Callable[[Address, int], Load]
) -> None:
    served_model = Path(shutil.copytree(model, tmp_path / "model"))
    with served(f"{served_model}=en-de", "--data", tmp_path / "data", *UNLIMITED) as (_, address):
        clients = load(address, 8)
        wait_until(lambda: clients.count > 100, seconds=60)
        # As training does.
        for name in ("config.json", "model.safetensors"):
            write_atomically(served_model / name, (other / name).read_bytes())
        wait_until(lambda: metric(address, "dragoman_model_reloads") == 1, seconds=30)
        assert translates(address, 2)
        found = clients.end()
        assert metric(address, "dragoman_model_reload_failures") == 0
    assert {status for _, status, _ in found} == {200}
    kinds = {(answer == expected(text, 1), answer == expected(text, 2)) for text, _, answer in found}
    assert {(True, False), (False, True)} <= kinds
    # The lines of a text may be translated by one model and the other.
    for text, _, answer in found:
        for word, line in zip(text.split("\n"), answer.split("\n"), strict=True):
            assert line in (word_after(word, 1), word_after(word, 2))


def test_a_model_that_is_half_written_is_not_taken_in(model: Path, other: Path, tmp_path: Path) -> None:
    served_model = Path(shutil.copytree(model, tmp_path / "model"))
    weights = served_model / "model.safetensors"
    whole = (other / weights.name).read_bytes()
    with served(f"{served_model}=en-de", "--data", tmp_path / "data", *UNLIMITED) as (process, address):
        weights.write_bytes(whole[: len(whole) // 2])
        wait_until(lambda: metric(address, "dragoman_model_reload_failures") == 1, seconds=30)
        assert translates(address, 1)
        assert request(address, "GET", "/ready")[0] == 200
        # It is tried again when it has changed again.
        weights.write_bytes(whole)
        wait_until(lambda: metric(address, "dragoman_model_reloads") == 1, seconds=30)
        assert translates(address, 2)
        assert metric(address, "dragoman_model_reload_failures") == 1
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.count("\n") == 1
    assert f"the former models stay in use: {weights} is damaged" in errors


def test_more_clients_than_places(model: Path, tmp_path: Path) -> None:
    small = ("--requests", "4", "--queue", "8", "--requests-per-minute", "40")
    with (
        served(f"{model}=en-de", "--data", tmp_path, *small) as (_, address),
        concurrent.futures.ThreadPoolExecutor(64) as threads,
    ):
        texts = [TEXTS[number % len(TEXTS)] for number in range(1000)]
        found = list(threads.map(lambda text: translated(address, text), texts))
        assert metric(address, "dragoman_requests_in_progress") == metric(address, "dragoman_requests_queued") == 0
        # One more than a client may send in a minute.
        found += [translated(address, text) for text in texts[:41]]
    assert {status for status, _ in found} == {200, 429, 503}
    for text, (status, answer) in zip(texts + texts[:41], found, strict=True):
        if status == 200:
            assert answer == expected(text)


def test_memory_does_not_grow_with_the_number_of_requests(model: Path, tmp_path: Path) -> None:
    with served(f"{model}=en-de", "--data", tmp_path, *UNLIMITED) as (process, address):

        def send(count: int) -> int:
            with concurrent.futures.ThreadPoolExecutor(8) as threads:
                texts = [TEXTS[number % len(TEXTS)] for number in range(count)]
                assert {status for status, _ in threads.map(lambda text: translated(address, text), texts)} == {200}
            return memory_of(process)

        before = send(500)
        after = send(2000)
    assert after - before < 8 << 20, (before, after)
