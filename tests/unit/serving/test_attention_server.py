"""The page's server against whoever connects: nobody keeps others waiting, nobody makes it say anything here."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from dragoman.serving import attention
from dragoman.serving.attention import LONGEST_HEAD, MOST_CONNECTIONS, AttentionServer
from tests.support.paths import REPOSITORY
from tests.support.small_translator import random_translator, write_model

# What a test waits for an answer at most; nearly all come within a millisecond.
PATIENCE = 8


@contextmanager
def running() -> Iterator[AttentionServer]:
    translator = random_translator()
    shown = translator.attention("the lamp", "the door", without_heads=True)
    with AttentionServer(translator, shown) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(capfd: pytest.CaptureFixture[str]) -> Iterator[AttentionServer]:
    """A server that has said nothing here when it ends."""
    with running() as server:
        yield server
    time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def connect(server: AttentionServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=PATIENCE)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while some := connection.recv(65536):
        received += some
    return received


def say(server: AttentionServer, text: bytes, *, end: bool = False) -> bytes:
    """Say something and return all that is answered, "" when the server hangs up."""
    with connect(server) as connection:
        try:
            connection.sendall(text)
            if end:
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def host(server: AttentionServer) -> bytes:
    return f"Host: 127.0.0.1:{server.server_address[1]}\r\n".encode()


def status(answer: bytes) -> int:
    # What cannot be understood is answered as in HTTP/0.9, without a head.
    before = b"<p>Error code: " if answer.startswith(b"<!DOCTYPE") else b"HTTP/1.0 "
    return int(answer.partition(before)[2][:3])


def assert_well(server: AttentionServer) -> None:
    """The page and the model answer somebody else."""
    assert status(say(server, b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")) == 200
    assert status(say(server, post(server, b"[]"))) == 200


def post(server: AttentionServer, body: bytes, length: int | None = None) -> bytes:
    head = b"POST /without HTTP/1.1\r\n" + host(server) + b"Content-Type: application/json\r\n"
    return head + f"Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
def test_who_is_silent_or_slow_keeps_nobody_waiting_and_is_hung_up_on(
    server: AttentionServer, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SECONDS_TO_ASK", 1)
    with connect(server) as silent, connect(server) as dripping:
        silent.sendall(begun)
        assert_well(server)
        began = time.monotonic()
        dropped = False
        # A byte now and then does not put it off.
        while not dropped and time.monotonic() < began + PATIENCE:
            time.sleep(0.1)
            try:
                dripping.sendall(b"x")
            except OSError:
                dropped = True
        assert dropped
        assert silent.recv(10) == b""
    assert_well(server)


def test_a_body_that_does_not_come_keeps_nobody_waiting(
    server: AttentionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "SECONDS_TO_ASK", 0.5)
    with connect(server) as lying:
        lying.sendall(post(server, b"[", length=1000))
        assert_well(server)
        assert b"200" not in read_all(lying)


def test_many_connections(server: AttentionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server.translator, "without", lambda *_: ("said", -1.0))
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(200)]
        assert_well(server)
        # Those that came last are still open.
        idle[-1].sendall(b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")
        assert status(read_all(idle[-1])) == 200
        assert idle[0].recv(10) == b""
    answers: list[int] = []
    threads = [Thread(target=lambda: answers.append(status(say(server, post(server, b"[]"))))) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 100


def test_the_model_answers_one_at_a_time_and_the_page_meanwhile(
    server: AttentionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go_on = Event(), Event()
    asked: list[int] = []

    def without(*_: object) -> tuple[str, float]:
        asked.append(1)
        inside.set()
        assert go_on.wait(PATIENCE)
        return "said", -1.0

    monkeypatch.setattr(server.translator, "without", without)
    threads = [Thread(target=say, args=(server, post(server, b"[]"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert inside.wait(PATIENCE)
    assert status(say(server, b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")) == 200
    assert len(asked) == 1
    go_on.set()
    for thread in threads:
        thread.join()
    assert len(asked) == 3


def test_who_leaves_early_is_not_reported(server: AttentionServer) -> None:
    for text in (b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n", post(server, b"[]"), post(server, b"[", 9), b"GET"):
        for _ in range(5):
            connection = connect(server)
            connection.sendall(text)
            # Closing with a reset, as a browser that is ended.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    assert_well(server)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHOST\r\n", 200),
        (b"GET / HTTP/1.1\r\nHOSTA: " + b"x" * (LONGEST_HEAD - 100) + b"\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHOSTA: " + b"x" * LONGEST_HEAD + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHOST" + b"A: " + b"x" * 60_000 + b"\r\nB: " + b"x" * 60_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHOST" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\nHOST\r\n", 414),
        (b"HEAD / HTTP/1.1\r\nHOST\r\n", 501),
        (b"OPTIONS * HTTP/1.1\r\nHOST\r\n", 501),
        (b"PUT / HTTP/1.1\r\nHOSTContent-Length: 3\r\n\r\nabc", 501),
        (b"\x16\x03\x01\x02 \x00 \xff\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHOST\r\n", 505),
        (b"GET / HTTP/1.1\r\nHOSTHOST\r\n", 404),
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", 404),
        (b"POST /without HTTP/1.1\r\nHOSTContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        # The second request of a pipeline is not read.
        (b"GET / HTTP/1.1\r\nHOST\r\nGET / HTTP/1.1\r\nHOST\r\n", 200),
    ],
)
def test_odd_requests_get_one_answer(server: AttentionServer, request_: bytes, expected: int) -> None:
    answer = say(server, request_.replace(b"HOST", host(server)))
    if answer:  # what was not read makes the system drop the rest of a connection, at times with the answer
        assert status(answer) == expected
        assert answer.count(b"HTTP/1.0 ") <= 1
    else:
        assert expected in (414, 431)
    assert_well(server)


def test_a_request_that_breaks_off_gets_no_page(server: AttentionServer) -> None:
    assert say(server, b"GET / HTTP/1.1\r\n" + host(server), end=True) == b""
    assert status(say(server, post(server, b"[]", length=9), end=True)) == 400
    # HTTP/0.9 cannot say a host.
    assert say(server, b"GET /\r\n") == b"there is nothing here but the page"
    assert_well(server)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost"])
def test_the_names_of_this_machine(server: AttentionServer, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    port = server.server_address[1]

    def answered(named: str) -> int:
        return status(say(server, f"GET / HTTP/1.1\r\nHost: {named}\r\n\r\n".encode()))

    assert (answered(f"{name}:{port}"), answered(name), answered(f"{name}:80")) == (200, 404, 404)
    # A browser leaves out the port of HTTP.
    where = ("127.0.0.1", server.server_address[1])
    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda _, **settings: real(where, **settings))
    monkeypatch.setattr(server, "server_address", ("127.0.0.1", 80))
    assert (answered(name), answered(f"{name}:80"), answered(f"{name}:{port}")) == (200, 200, 404)
    assert answered("evil.example") == 404


def test_a_server_that_is_closed_waits_for_the_model_only(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = Event()

    def without(*_: object) -> tuple[str, float]:
        time.sleep(0.3)
        finished.set()
        return "said", -1.0

    with running() as server, ExitStack() as stack:
        monkeypatch.setattr(server.translator, "without", without)
        for _ in range(MOST_CONNECTIONS // 2):
            stack.enter_context(connect(server))
        for _ in range(3):
            asking = stack.enter_context(connect(server))
            asking.sendall(post(server, b"[]"))
        time.sleep(0.1)
    assert finished.is_set()
    server.server_close()


def test_a_connection_that_is_closed_while_its_thread_begins(
    server: AttentionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the main thread, which Control-C interrupts: it is closed twice, and nothing is said."""
    begin = server.process_request_thread

    def interrupted(request: socket.socket, address: tuple[str, int]) -> None:
        server.shutdown_request(request)
        begin(request, address)

    with monkeypatch.context() as patch:
        patch.setattr(server, "process_request_thread", interrupted)
        for _ in range(3):
            assert say(server, b"GET / HTTP/1.1\r\n") == b""
    assert_well(server)


def test_control_c_ends_the_server_at_once_with_connections_open(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    write_model(model, 0, right_to_left=False)
    with (
        subprocess.Popen(
            [sys.executable, "-m", "dragoman", "attention", str(model), "the lamp", "--target", "the door", "--serve"],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        url = line.split()[0]
        port = int(url.rstrip("/").rsplit(":", 1)[1])
        for text in (b"", b"GET", b"GET / HTTP/1.1\r\n"):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=PATIENCE))
            connection.sendall(text)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert (process.returncode, errors) == (130, "")


def test_an_answer_is_what_the_model_says(server: AttentionServer) -> None:
    answer = say(server, post(server, json.dumps([server.attention.without[0].head]).encode()))
    body: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["translation"] == server.attention.without[0].translation
