"""The attention server with slow, malformed and hostile requests: other clients are served, and nothing is printed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from dragoman.serving import attention_server
from dragoman.serving.attention_server import MAX_CONNECTIONS, MAX_HEADER_BYTES, AttentionServer
from tests.support.paths import REPOSITORY
from tests.support.small_language import random_analyzer
from tests.support.small_translator import random_translator, write_model

# Longest time that a test waits for a response, in seconds; nearly all arrive within a millisecond.
TIMEOUT = 8


def translator_server() -> AttentionServer:
    translator = random_translator()
    shown = translator.attention("the lamp", "the door", without_heads=True)
    return AttentionServer(translator.translate_without, shown)


def language_server() -> AttentionServer:
    analyzer = random_analyzer()
    return AttentionServer(analyzer.predict_without, analyzer.attention("the lamp", without_heads=True))


@contextmanager
def running(build: Callable[[], AttentionServer] = translator_server) -> Iterator[AttentionServer]:
    with build() as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def server(capfd: pytest.CaptureFixture[str]) -> Iterator[AttentionServer]:
    """A server that must not have printed anything at the end of the test."""
    with running() as server:
        yield server
    time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def connect(server: AttentionServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_address[1]), timeout=TIMEOUT)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def send(server: AttentionServer, data: bytes, *, end: bool = False) -> bytes:
    """Send data and return the response; b"" if the server closes the connection."""
    with connect(server) as connection:
        try:
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
            return read_all(connection)
        except (ConnectionResetError, BrokenPipeError):
            return b""


def host(server: AttentionServer) -> bytes:
    return f"Host: 127.0.0.1:{server.server_address[1]}\r\n".encode()


def status(answer: bytes) -> int:
    # Malformed requests are answered as in HTTP/0.9, without headers.
    before = b"<p>Error code: " if answer.startswith(b"<!DOCTYPE") else b"HTTP/1.0 "
    return int(answer.partition(before)[2][:3])


def assert_responsive(server: AttentionServer) -> None:
    """Check that the page and the model answer another client."""
    assert status(send(server, b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")) == 200
    assert status(send(server, post(server, b"[]"))) == 200


def post(server: AttentionServer, body: bytes, length: int | None = None) -> bytes:
    head = b"POST /without HTTP/1.1\r\n" + host(server) + b"Content-Type: application/json\r\n"
    return head + f"Content-Length: {len(body) if length is None else length}\r\n\r\n".encode() + body


@pytest.mark.parametrize("begun", [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: "])
def test_silent_and_slow_clients_do_not_delay_others_and_are_disconnected(
    server: AttentionServer, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_server, "REQUEST_SECONDS", 1)
    with connect(server) as silent, connect(server) as dripping:
        silent.sendall(begun)
        assert_responsive(server)
        began = time.monotonic()
        dropped = False
        # Single bytes do not extend the time limit.
        while not dropped and time.monotonic() < began + TIMEOUT:
            time.sleep(0.1)
            try:
                dripping.sendall(b"x")
            except OSError:
                dropped = True
        assert dropped
        assert silent.recv(10) == b""
    assert_responsive(server)


def test_a_missing_body_does_not_delay_others(server: AttentionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_server, "REQUEST_SECONDS", 0.5)
    with connect(server) as client:
        client.sendall(post(server, b"[", length=1000))
        assert_responsive(server)
        assert b"200" not in read_all(client)


def test_many_connections(server: AttentionServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "without", lambda *_: ("text", -1.0))
    with ExitStack() as stack:
        idle = [stack.enter_context(connect(server)) for _ in range(200)]
        assert_responsive(server)
        # The latest connections are still open.
        idle[-1].sendall(b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")
        assert status(read_all(idle[-1])) == 200
        assert idle[0].recv(10) == b""
    answers: list[int] = []
    threads = [Thread(target=lambda: answers.append(status(send(server, post(server, b"[]"))))) for _ in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 100


def test_the_model_handles_one_request_at_a_time_and_the_page_is_served_meanwhile(
    server: AttentionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, release = Event(), Event()
    calls: list[int] = []

    def without(*_: object) -> tuple[str, float]:
        calls.append(1)
        started.set()
        assert release.wait(TIMEOUT)
        return "text", -1.0

    monkeypatch.setattr(server, "without", without)
    threads = [Thread(target=send, args=(server, post(server, b"[]"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert started.wait(TIMEOUT)
    assert status(send(server, b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n")) == 200
    assert len(calls) == 1
    release.set()
    for thread in threads:
        thread.join()
    assert len(calls) == 3


def test_a_client_that_disconnects_early_is_not_reported(server: AttentionServer) -> None:
    for text in (b"GET / HTTP/1.1\r\n" + host(server) + b"\r\n", post(server, b"[]"), post(server, b"[", 9), b"GET"):
        for _ in range(5):
            connection = connect(server)
            connection.sendall(text)
            # Close with a reset, like a browser that is terminated.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    assert_responsive(server)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        (b"GET / HTTP/1.1\r\nHOST\r\n", 200),
        (b"GET / HTTP/1.1\r\nHOSTA: " + b"x" * (MAX_HEADER_BYTES - 100) + b"\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHOSTA: " + b"x" * MAX_HEADER_BYTES + b"\r\n\r\n", 431),
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
        # The second of two pipelined requests is not read.
        (b"GET / HTTP/1.1\r\nHOST\r\nGET / HTTP/1.1\r\nHOST\r\n", 200),
    ],
)
def test_unusual_requests_get_one_response(server: AttentionServer, request_: bytes, expected: int) -> None:
    answer = send(server, request_.replace(b"HOST", host(server)))
    # Closing a connection with unread data may discard the response.
    if answer:
        assert status(answer) == expected
        assert answer.count(b"HTTP/1.0 ") <= 1
    else:
        assert expected in (414, 431)
    assert_responsive(server)


def test_an_incomplete_request_gets_no_page(server: AttentionServer) -> None:
    assert send(server, b"GET / HTTP/1.1\r\n" + host(server), end=True) == b""
    assert status(send(server, post(server, b"[]", length=9), end=True)) == 400
    # HTTP/0.9 has no Host header.
    assert send(server, b"GET /\r\n") == b"not found: the page is at /"
    assert_responsive(server)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LocalHost"])
def test_names_of_the_loopback_address_are_accepted(
    server: AttentionServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = server.server_address[1]

    def status_for(name_and_port: str) -> int:
        return status(send(server, f"GET / HTTP/1.1\r\nHost: {name_and_port}\r\n\r\n".encode()))

    assert (status_for(f"{name}:{port}"), status_for(name), status_for(f"{name}:80")) == (200, 404, 404)
    # A browser leaves out the port of HTTP.
    where = ("127.0.0.1", server.server_address[1])
    real = socket.create_connection
    monkeypatch.setattr(socket, "create_connection", lambda _, **settings: real(where, **settings))
    monkeypatch.setattr(server, "server_address", ("127.0.0.1", 80))
    assert (status_for(name), status_for(f"{name}:80"), status_for(f"{name}:{port}")) == (200, 200, 404)
    assert status_for("evil.example") == 404


def test_closing_the_server_waits_for_the_model_only(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = Event()

    def without(*_: object) -> tuple[str, float]:
        time.sleep(0.3)
        finished.set()
        return "text", -1.0

    with running() as server, ExitStack() as stack:
        monkeypatch.setattr(server, "without", without)
        for _ in range(MAX_CONNECTIONS // 2):
            stack.enter_context(connect(server))
        for _ in range(3):
            client = stack.enter_context(connect(server))
            client.sendall(post(server, b"[]"))
        time.sleep(0.1)
    assert finished.is_set()
    server.server_close()


def test_ctrl_c_ends_the_server_immediately_with_open_connections(tmp_path: Path) -> None:
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
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT))
            connection.sendall(text)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=TIMEOUT)
        assert (process.returncode, errors) == (130, "")


def test_the_response_contains_the_models_translation(server: AttentionServer) -> None:
    answer = send(server, post(server, json.dumps([server.attention.without[0].head]).encode()))
    body: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert body["translation"] == server.attention.without[0].translation


def test_a_language_model_predicts_without_heads() -> None:
    with running(language_server) as server:
        shown = server.attention
        heads = [each.head for each in shown.without[:2]]
        answer = send(server, post(server, json.dumps(heads).encode()))
        response = json.loads(answer.split(b"\r\n\r\n", 1)[1])
        predicted, log_probability = server.without(shown, heads)
    assert response == {"translation": predicted, "logProbability": log_probability}
    assert log_probability != shown.log_probability
