"""Keys and models that are read anew."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.errors import ModelError, SettingsError
from dragoman.serving import reloading
from dragoman.serving.reloading import Reloading


class Server:
    """What is read anew, and how often; reading models takes 0.02 s and fails with the next of `errors`."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reloading, "WATCHING_SECONDS", 0.01)
        self.keys = self.models = self.failures = 0
        self.errors: list[Exception] = []
        self.reloading = Reloading([directory], self._read_keys, self._read_models, self._fail)

    def _read_keys(self) -> None:
        self.keys += 1
        if self.keys == 2:
            raise SettingsError("half a file")

    async def _read_models(self) -> None:
        await asyncio.sleep(0.02)
        if self.errors:
            raise self.errors.pop(0)
        self.models += 1

    def _fail(self) -> None:
        self.failures += 1


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


def test_keys_are_read_at_once_and_models_after_a_reading_in_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def check() -> None:
        server = Server(tmp_path, monkeypatch)
        # Before the server runs.
        server.reloading.ask()
        assert (server.keys, server.models) == (1, 0)
        running = asyncio.create_task(server.reloading.run())
        await asyncio.sleep(0.015)
        # While models are read.
        server.reloading.ask()
        server.reloading.ask()
        assert (server.keys, server.models) == (3, 0)
        await until(lambda: server.models == 2)
        await asyncio.sleep(0.05)
        assert server.models == 2
        running.cancel()

    asyncio.run(check())
    assert caplog.messages == ["the former keys stay valid: half a file"]


def test_models_are_read_again_after_every_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(reloading, "RETRY_SECONDS", 0.03)

    async def check() -> None:
        server = Server(tmp_path, monkeypatch)
        server.errors = [ModelError("damaged"), OSError(errno.EMFILE, "Too many open files"), RuntimeError("odd")]
        running = asyncio.create_task(server.reloading.run())
        await asyncio.sleep(0.05)
        assert not caplog.messages
        (tmp_path / "config.json").write_text("{}")
        await until(lambda: server.models == 1)
        await asyncio.sleep(0.05)
        assert (server.models, server.failures) == (1, 2)
        (tmp_path / "config.json").write_text("{} ")
        await until(lambda: server.models == 2)
        running.cancel()

    asyncio.run(check())
    assert caplog.messages == [
        "the former models stay in use: damaged",
        "the former models stay in use: OSError: [Errno 24] Too many open files",
        "the former models stay in use: RuntimeError: odd",
    ]
