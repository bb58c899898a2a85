"""The server and a worker that does not keep to the protocol."""

import asyncio
import errno
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from dragoman.errors import ModelError
from dragoman.search.config import SearchConfig
from dragoman.search.results import SearchInput
from dragoman.serving.lines import LineOptions
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers import line_window, processes
from dragoman.serving.workers.frames import FrameError, encode_frame, read_frame
from dragoman.serving.workers.held_models import HoldingSettings, ModelSource
from dragoman.serving.workers.messages import read_number
from dragoman.serving.workers.processes import NurseryProcess, WorkerProcess
from dragoman.serving.workers.sentence_search import Done
from dragoman.serving.workers.worker import Worker

PAIR = ("en", "de")
TRANSLATION: dict[str, object] = {
    "text": "Lampe",
    "log_probability": -1.0,
    "score": -0.5,
    "alternatives": [],
    "segments": 1,
    "cut": False,
    "truncated": False,
    "invalid_utf8": False,
}


@asynccontextmanager
async def connected() -> AsyncIterator[
    tuple[WorkerProcess, asyncio.StreamReader, asyncio.StreamWriter, subprocess.Popen[bytes]]
]:
    """Give a ready worker, the worker's end of its connection, and the process that the server believes it to be."""
    ours, theirs = socket.socketpair()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        reader, writer = await asyncio.open_unix_connection(sock=theirs)
        worker = WorkerProcess(process.pid, *await asyncio.open_unix_connection(sock=ours))
        writer.write(encode_frame({"ready": True}))
        await worker.become_ready()
        try:
            yield worker, reader, writer, process
        finally:
            await worker.close()
            writer.close()
            process.kill()


async def next_request(reader: asyncio.StreamReader) -> dict[str, object]:
    while (message := await read_frame(reader)) is not None:
        if "ping" not in message:
            return message
    raise AssertionError("the server closed the connection")


def test_answers_may_come_in_any_order() -> None:
    async def check() -> None:
        async with connected() as (worker, reader, writer, _):
            lines = [asyncio.create_task(worker.translate(PAIR, "lamp", LineOptions())) for _ in range(2)]
            first, second = [(await next_request(reader))["translate"] for _ in lines]
            assert isinstance(first, dict)
            assert isinstance(second, dict)
            assert (worker.in_flight, worker.characters) == (2, 10)
            writer.write(encode_frame({"id": second["id"], "translation": {**TRANSLATION, "text": "second"}}))
            assert (await lines[1]).text == "second"
            # The answer to a number that nobody waits for is ignored.
            writer.write(encode_frame({"id": 99, "translation": TRANSLATION}))
            writer.write(encode_frame({"id": first["id"], "refused": {"status": 400, "message": "no"}}))
            with pytest.raises(RequestError, match="no"):
                await lines[0]
            assert (worker.in_flight, worker.characters) == (0, 0)

    asyncio.run(check())


def test_cancelled_lines_are_given_up() -> None:
    async def check() -> None:
        async with connected() as (worker, reader, _, _):
            line = asyncio.create_task(worker.translate(PAIR, "lamp", LineOptions()))
            await next_request(reader)
            line.cancel()
            assert await next_request(reader) == {"cancel": 1}
            assert worker.in_flight == 0

    asyncio.run(check())


@pytest.mark.parametrize(
    "answer",
    [
        b"\xff\xff\xff\xff",
        b"\0\0\0\2[]",
        encode_frame({"unknown": 1}),
        encode_frame({"id": "1", "translation": TRANSLATION}),
        encode_frame({"id": 1, "translation": {**TRANSLATION, "text": 5}}),
        encode_frame({"id": 1, "translation": {}}),
        encode_frame({"id": 1, "refused": None}),
    ],
)
def test_a_worker_with_damaged_answers_is_killed(answer: bytes) -> None:
    async def check() -> None:
        async with connected() as (worker, _, writer, process):
            line = asyncio.create_task(worker.translate(PAIR, "lamp", LineOptions()))
            await asyncio.sleep(0)
            writer.write(answer)
            with pytest.raises(RequestError) as lost:
                await line
            assert (lost.value.status, lost.value.retry_after) == (503, 1)
            assert not worker.alive
            assert process.wait(10) == -9
            with pytest.raises(RequestError):
                await worker.translate(PAIR, "lamp", LineOptions())

    asyncio.run(check())


def test_a_worker_that_closes_its_connection_has_ended() -> None:
    async def check() -> None:
        async with connected() as (worker, _, writer, process):
            line = asyncio.create_task(worker.translate(PAIR, "lamp", LineOptions()))
            await asyncio.sleep(0)
            writer.close()
            with pytest.raises(RequestError):
                await line
            # Another process may have its number by now: it is not killed.
            assert process.poll() is None

    asyncio.run(check())


def test_a_fork_that_was_given_up_leaves_nothing_to_the_next() -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        nursery = NurseryProcess(cast(asyncio.subprocess.Process, None), ours)
        with ours, theirs:
            forks = [asyncio.create_task(nursery.fork("lines")) for _ in range(2)]
            await asyncio.sleep(0)
            connections = [socket.socket(fileno=socket.recv_fds(theirs, 1000, 1)[1][0]) for _ in forks]
            await asyncio.sleep(0.01)
            forks[0].cancel()
            await asyncio.gather(forks[0], return_exceptions=True)
            with pytest.raises(BrokenPipeError):
                connections[0].send(encode_frame({"started": 111}))
            connections[1].send(encode_frame({"started": (1 << 22) + 2}) + encode_frame({"ready": True}))
            worker = await forks[1]
            assert worker.pid == (1 << 22) + 2
            await worker.close()
            for connection in connections:
                connection.close()

    asyncio.run(check())


def test_nurseries_that_do_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = HoldingSettings(models=(ModelSource(pair=PAIR, directories=(tmp_path,)),))
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(ModelError, match="cannot be started: Permission denied"):
        asyncio.run(NurseryProcess.start(settings))
    program.chmod(0o700)
    monkeypatch.setattr(processes, "LOADING_SECONDS", 0.1)
    with pytest.raises(ModelError, match=r"were not loaded within 0.1 s"):
        asyncio.run(NurseryProcess.start(settings))

    def refuse(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def fork() -> None:
        monkeypatch.setattr(socket, "socketpair", refuse)
        await NurseryProcess(cast(asyncio.subprocess.Process, None), cast(socket.socket, None)).fork("lines")

    with pytest.raises(ModelError, match="no process can be started: Too many open files"):
        asyncio.run(fork())


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (encode_frame({"error": {"kind": "ModelError", "message": "damaged"}}), ModelError),
        (b"\0\0\0\2[]", ConnectionError),
        (b"", ConnectionError),
    ],
)
def test_a_worker_that_does_not_become_ready(message: bytes, error: type[Exception]) -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        # A number that no process has.
        worker = WorkerProcess((1 << 22) + 1, *await asyncio.open_unix_connection(sock=ours))
        with theirs:
            theirs.sendall(message)
        with pytest.raises(error):
            await worker.become_ready()
        await worker.close()

    asyncio.run(check())


@pytest.mark.parametrize(
    "message",
    [{}, {"unknown": 1}, {"ping": "1"}, {"cancel": None}, {"translate": {}}, {"translate": [1]}],
)
def test_workers_refuse_other_messages(message: dict[str, object]) -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            _, writer = await asyncio.open_unix_connection(sock=ours)
            with pytest.raises(FrameError):
                Worker({}, {}, writer).receive(message)
            writer.close()

    asyncio.run(check())


class Hanging:
    """A search whose sign of life is set by the test."""

    def __init__(self) -> None:
        self.sign: int | None = None

    def submit(self, row: SearchInput, config: SearchConfig, done: Done, *, group: int = 0) -> int:
        raise NotImplementedError

    def cancel(self, ticket: int) -> bool:
        return False

    def signs(self) -> list[int | None]:
        return [None, self.sign]

    def close(self) -> None:
        pass


def test_answers_to_pings_tell_whether_the_search_proceeds() -> None:
    async def check() -> None:
        ours, theirs = socket.socketpair()
        reader, other_writer = await asyncio.open_unix_connection(sock=theirs)
        _, writer = await asyncio.open_unix_connection(sock=ours)
        search = Hanging()
        worker = Worker({}, {PAIR: search}, writer)
        signs = [None, None, 5, 6, 6, 6, 7, None, 7]
        for number, search.sign in enumerate(signs):
            worker.receive({"ping": number})
        writer.close()
        answered = []
        while (message := await read_frame(reader)) is not None:
            if message["proceeds"]:
                answered.append(message["pong"])
        other_writer.close()
        assert answered == [0, 1, 2, 3, 6, 7, 8]

    asyncio.run(check())


@pytest.mark.parametrize("state", ["silent", "answers lines", "hangs", "proceeds"])
def test_a_worker_is_killed_when_it_is_silent_or_hangs(
    state: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "PING_SECONDS", 0.01)

    async def check() -> None:
        async with connected() as (worker, reader, writer, process):
            for round_number in range(4 * processes.STUCK_PINGS):
                await asyncio.sleep(0.01)
                if state == "answers lines":
                    # Its pings wait for the lines before them.
                    writer.write(encode_frame({"cancelled": 1}))
                elif state != "silent":
                    # Every tenth sign of progress is enough.
                    proceeds = state == "proceeds" and round_number % 10 == 0
                    writer.write(encode_frame({"pong": read_number(await ping(reader)), "proceeds": proceeds}))
                if not worker.alive:
                    break
            killed = state in ("silent", "hangs")
            assert worker.alive == (not killed)
            assert (process.wait(10) == -9) if killed else (process.poll() is None)
            assert [record.getMessage() for record in caplog.records] == (
                [f"process {process.pid} does not answer, or its engine hangs: it is killed"] if killed else []
            )

    async def ping(reader: asyncio.StreamReader) -> object:
        message = await read_frame(reader)
        # The server has closed the connection.
        return 0 if message is None else message["ping"]

    asyncio.run(check())


def test_pings_and_short_requests_do_not_wait_for_the_lines_of_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PING_SECONDS", 0.01)

    async def check() -> None:
        async with connected() as (worker, reader, _, _):
            large = [
                asyncio.create_task(worker.translate(PAIR, "lamp", LineOptions(group=1)))
                for _ in range(3 * line_window.WINDOW_LINES)
            ]
            await asyncio.sleep(0.05)
            short = asyncio.create_task(worker.translate(PAIR, "door", LineOptions(group=2)))
            kinds: list[object] = []
            while kinds[-1:] != ["door"]:
                message = await read_frame(reader)
                assert message is not None
                kinds.append(message["translate"]["line"] if "translate" in message else "ping")  # type: ignore[index]
            assert kinds.count("lamp") == line_window.WINDOW_LINES
            assert kinds.count("ping") == 1
            # Those that wait in the server are given up without a message, the others with one.
            for line in large:
                line.cancel()
            await asyncio.gather(*large, return_exceptions=True)
            assert worker.in_flight == 1
            for _ in range(line_window.WINDOW_LINES):
                assert "cancel" in await next_request(reader)
            short.cancel()
            await asyncio.gather(short, return_exceptions=True)

    asyncio.run(check())
