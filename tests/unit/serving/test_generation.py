"""Workers and nurseries that end, and those that take their places."""

import asyncio
import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from dragoman.errors import ModelError
from dragoman.serving.workers import generation as generations
from dragoman.serving.workers.generation import Generation
from dragoman.serving.workers.held_models import HoldingSettings, ModelSource
from dragoman.serving.workers.processes import NurseryProcess, WorkerProcess

SETTINGS = HoldingSettings(models=(ModelSource(pair=("en", "de"), directories=(Path("model"),)),))


class FakeWorker:
    numbers = count(1)

    def __init__(self) -> None:
        self.pid = next(self.numbers)
        self.ended = asyncio.Event()
        self.in_flight = 0

    @property
    def alive(self) -> bool:
        return not self.ended.is_set()

    async def wait(self) -> None:
        await self.ended.wait()

    async def close(self, *, kill: bool = False) -> None:
        self.ended.set()


class FakeNursery:
    """A nursery that forks workers until `error` is set."""

    def __init__(self) -> None:
        self.error: OSError | None = None
        self.closed = False

    async def fork(self, kind: str) -> WorkerProcess:
        if self.error is not None:
            raise self.error
        return cast(WorkerProcess, FakeWorker())

    async def close(self, *, kill: bool = False) -> None:
        self.closed = True


def nurseries(monkeypatch: pytest.MonkeyPatch, *outcomes: FakeNursery | Exception) -> None:
    """Let nurseries start with these outcomes, one after the other."""
    rest = iter(outcomes)

    async def start(settings: HoldingSettings) -> NurseryProcess:
        await asyncio.sleep(0.01)
        outcome = next(rest)
        if isinstance(outcome, Exception):
            raise outcome
        return cast(NurseryProcess, outcome)

    monkeypatch.setattr(NurseryProcess, "start", start)
    monkeypatch.setattr(generations, "SHORTEST_DELAY", 0.001)


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def test_a_worker_is_replaced_after_nurseries_that_do_not_start(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        first, last = FakeNursery(), FakeNursery()
        refused = OSError(errno.EMFILE, "Too many open files")
        nurseries(monkeypatch, first, ModelError("damaged"), refused, RuntimeError("unexpected"), last)
        generation = await Generation.start(SETTINGS, 1)
        [worker] = generation.workers
        first.error = ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        # A nursery that was closed cannot fork.
        await worker.close()
        await until(lambda: not generation.workers)
        await until(lambda: generation.workers)
        assert (generation.restarts, first.closed, last.closed) == (1, True, False)
        await generation.close()
        assert last.closed
        assert [record.getMessage() for record in caplog.records if "cannot be replaced" in record.getMessage()] == [
            "the process that loads the models cannot be replaced now: damaged",
            "the process that loads the models cannot be replaced now: [Errno 24] Too many open files",
            "the process that loads the models cannot be replaced now: unexpected",
        ]
        assert caplog.records[0].getMessage().endswith("has ended: another takes its place")

    asyncio.run(check())


def test_attention_replaces_a_nursery_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        first, last = FakeNursery(), FakeNursery()
        nurseries(monkeypatch, first, last)
        generation = await Generation.start(SETTINGS, 1)
        first.error = BrokenPipeError()
        # The first is cancelled, as by a client that leaves; the nursery is started all the same, once.
        waiting = [asyncio.create_task(generation._fork_for_attention()) for _ in range(3)]
        await asyncio.sleep(0.005)
        waiting.pop(0).cancel()
        assert all(worker.alive for worker in await asyncio.gather(*waiting))
        assert (len(generation.workers), first.closed, last.closed) == (1, True, False)
        await generation.close()

    asyncio.run(check())
