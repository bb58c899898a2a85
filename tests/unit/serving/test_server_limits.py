"""The limits of a server, met by hostile clients over raw sockets."""

import concurrent.futures
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from dragoman.serving.access.security import CONTENT_SECURITY_POLICY
from dragoman.serving.limits import Limits
from tests.support.serving_app import Endpoints, request, serving, wait_until

LIMITS = Limits(body_bytes=100_000, document_bytes=200_000, body_seconds=1.0, request_seconds=2.0, requests=2, queue=3)
Address = tuple[str, int]


@pytest.fixture(scope="module")
def endpoints() -> Endpoints:
    return Endpoints()


@pytest.fixture(scope="module")
def address(endpoints: Endpoints) -> Iterator[Address]:
    with serving(LIMITS, endpoints, hosts=["translate.example.org"]) as address:
        yield address


def connected(address: Address) -> socket.socket:
    return socket.create_connection(address, timeout=10)


def received(connection: socket.socket) -> bytes:
    """Return what arrives until the connection is closed, or reset."""
    data = b""
    with suppress(ConnectionError):
        while part := connection.recv(65536):
            data += part
    return data


def send_until_closed(connection: socket.socket, data: bytes, most: int) -> int:
    """Send the data repeatedly until the connection is closed; return the number of bytes sent."""
    sent = 0
    with suppress(ConnectionError):
        while sent < most:
            sent += connection.send(data)
    return sent


def test_a_request_is_answered(address: Address) -> None:
    status, headers, body = request(address, "POST", "/echo", b"hello")
    assert (status, body) == (200, b"hello")
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/nothing", {"error": "Not Found"}),
        ("/v1/nothing", {"error": {"message": "Not Found"}}),
        ("/v2/nothing", {"message": "Not Found"}),
        ("/v2", {"message": "Not Found"}),
        ("/v1", {"error": {"message": "Not Found"}}),
    ],
)
def test_errors_have_the_form_of_the_interface(path: str, form: object, address: Address) -> None:
    status, headers, body = request(address, "GET", path)
    assert (status, json.loads(body)) == (404, form)
    assert headers["x-content-type-options"] == "nosniff"
    if path.endswith("nothing"):
        assert request(address, "GET", path.replace("nothing", "echo"))[0] == 405


@pytest.mark.parametrize("path", ["/../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/echo/", "/%00"])
def test_unusual_paths_are_not_found(path: str, address: Address) -> None:
    assert request(address, "GET", path)[0] == 404


def test_a_body_that_is_too_large_is_refused_before_it_is_sent(address: Address) -> None:
    begin = time.monotonic()
    with closing(connected(address)) as connection:
        head = b"POST /v2/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1073741824\r\n"
        connection.sendall(head + b"Expect: 100-continue\r\n\r\n")
        answer = connection.recv(65536)
        assert time.monotonic() - begin < 0.9
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer.lower()
        assert b'{"message":"the body of the request has more than 100,000 bytes"}' in answer + received(connection)


def test_a_body_that_is_too_large_is_refused_while_it_is_sent(address: Address) -> None:
    """The whole body is sent before the client reads."""
    assert request(address, "POST", "/echo", b"x" * 1_000_000)[0] == 413
    assert request(address, "POST", "/v2/document", b"x" * 150_000)[0] == 404
    assert request(address, "POST", "/v2/document", b"x" * 250_000)[0] == 413


def test_an_endless_chunked_body_is_refused(address: Address) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        begin = time.monotonic()
        send_until_closed(connection, b"400\r\n" + b"x" * 1024 + b"\r\n", 1 << 40)
        assert time.monotonic() - begin < 5
    with closing(connected(address)) as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        connection.sendall(b"19000\r\n" + b"x" * 0x19000 + b"\r\n")
        assert received(connection).startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(
    ("begin", "part"),
    [
        (b"GET / HTTP/1.1\r\n", b"X-Name: " + b"x" * 1000 + b"\r\n"),
        (b"GET / HTTP/1.1\r\nX-Name: ", b"x" * 1000),
        (b"GET /", b"x" * 1000),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 1000),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Name: ", b"x" * 1000),
        (b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: y\r\n" * 100),
    ],
    ids=["headers", "one header", "path", "chunk extension", "one trailer", "trailers"],
)
def test_endless_headers_are_refused(begin: bytes, part: bytes, address: Address) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with closing(connected(address)) as connection:
        connection.sendall(begin)
        sent = send_until_closed(connection, part, 1 << 30)
        # The rest is in the buffers of the system.
        assert sent < 16 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    assert request(address, "POST", "/echo", b"hello")[0] == 200


def test_a_header_of_64_kib_is_refused_with_its_status(address: Address) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nX-Name: " + b"x" * 65536)
        assert received(connection).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HT", b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\nX-", b"HTTP/1.1 408 "),
        (b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc", b"HTTP/1.1 408 "),
        (b"", b""),
    ],
    ids=["request line", "header", "body", "nothing"],
)
def test_a_request_that_does_not_end_is_cut_off(sent: bytes, status: bytes, address: Address) -> None:
    begin = time.monotonic()
    with closing(connected(address)) as connection:
        connection.sendall(sent)
        answer = received(connection)
    assert answer.startswith(status)
    assert bool(answer) == bool(status)
    assert 0.5 < time.monotonic() - begin < 5


def test_a_slow_header_after_a_response_is_cut_off(address: Address) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab\r\n")
        assert b"HTTP/1.1 200 " in connection.recv(65536)
        begin = time.monotonic()
        connection.sendall(b"\r\nPO")
        assert received(connection).endswith(b"Request Timeout")
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
    ids=["TLS", "negative length", "two lengths", "chunk"],
)
def test_what_is_not_http_is_refused(sent: bytes, address: Address) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(sent)
        assert received(connection).startswith(b"HTTP/1.1 4")


def test_a_client_that_does_not_read_is_disconnected(address: Address) -> None:
    with closing(connected(address)) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(LIMITS.request_seconds + 1)
        assert len(received(connection)) < 64 << 20


def test_a_request_that_takes_too_long_is_cancelled(address: Address, endpoints: Endpoints) -> None:
    endpoints.cancelled.clear()
    begin = time.monotonic()
    status, headers, body = request(address, "POST", "/v1/echo?seconds=30", b"hello")
    assert (status, json.loads(body)) == (503, {"error": {"message": "the request took longer than 2 s"}})
    assert headers["retry-after"] == "1"
    assert 1.5 < time.monotonic() - begin < 5
    assert endpoints.cancelled == ["/v1/echo"]


def test_a_client_that_goes_away_frees_its_place(address: Address, endpoints: Endpoints) -> None:
    endpoints.cancelled.clear()
    with closing(connected(address)) as connection:
        connection.sendall(b"POST /echo?seconds=1.5 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n")
        wait_until(lambda: endpoints.running == 1)
    wait_until(lambda: endpoints.cancelled == ["/echo"], seconds=1)
    assert endpoints.running == 0


def test_a_streamed_response_is_cancelled(address: Address, endpoints: Endpoints) -> None:
    """When its client goes away, and when it takes too long."""
    for leave in (True, False):
        endpoints.cancelled.clear()
        with closing(connected(address)) as connection:
            connection.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            data = b""
            while b"first" not in data:
                part = connection.recv(65536)
                assert part
                data += part
            if not leave:
                assert received(connection) == b""
        wait_until(lambda: endpoints.cancelled == ["/stream"], seconds=1)


def test_places_and_queue_are_limited(address: Address, endpoints: Endpoints) -> None:
    endpoints.most_running = 0
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        texts = [f"text {number}".encode() for number in range(8)]
        begin = time.monotonic()
        answers = list(threads.map(lambda text: request(address, "POST", "/echo?seconds=0.5", text), texts))
    statuses = sorted(status for status, _, _ in answers)
    assert statuses == [200] * 5 + [503] * 3
    assert endpoints.most_running == 2
    assert time.monotonic() - begin < 10
    for text, (status, headers, body) in zip(texts, answers, strict=True):
        if status == 200:
            assert body == text
        else:
            assert headers["retry-after"] == "1"


def test_ready_and_metrics_are_answered_when_the_server_is_full(address: Address, endpoints: Endpoints) -> None:
    threads = [threading.Thread(target=request, args=(address, "POST", "/echo?seconds=1", b"text")) for _ in range(5)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: endpoints.running == 2)
        assert request(address, "GET", "/ready")[::2] == (200, b'{"ready":true}')
        assert request(address, "GET", "/live")[0] == 200
        text = request(address, "GET", "/metrics")[2].decode()
        assert "dragoman_requests_in_progress 2.0" in text
        assert "process_resident_memory_bytes" in text
    finally:
        for thread in threads:
            thread.join()


def test_metrics_have_no_label_from_a_client(address: Address) -> None:
    request(address, "GET", "/secret-path-of-a-client?q=secret")
    request(address, "POST", "/echo?q=secret", b"secret")
    text = request(address, "GET", "/metrics")[2].decode()
    assert "secret" not in text
    assert 'dragoman_requests_total{route="/echo",status="200"}' in text
    assert 'dragoman_requests_total{route="none",status="404"}' in text


def test_errors_and_logs_contain_nothing_of_a_request(address: Address, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    status, _, body = request(address, "POST", "/fail?q=secret", b"secret text")
    assert (status, json.loads(body)) == (500, {"error": "internal error of the server"})
    wait_until(lambda: "RuntimeError" in caplog.text)
    request(address, "POST", "/echo?q=secret", b"secret text")
    wait_until(lambda: "/echo 200" in caplog.text)
    messages = "\n".join(record.getMessage() for record in caplog.records)
    assert "internal error at /fail: RuntimeError" in messages
    assert "secret" not in messages


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:5000", 200),
        ("127.0.0.1", 200),
        ("[::1]:80", 200),
        ("Translate.example.org", 200),
        ("evil.example.org", 421),
        ("", 421),
    ],
)
def test_names_of_other_sites_are_refused(host: str, status: int, address: Address) -> None:
    assert request(address, "POST", "/echo", b"x", {"Host": host})[0] == status


def test_cors_is_for_chosen_origins() -> None:
    with serving(LIMITS, Endpoints(), origins=["https://example.org"]) as address:
        for origin, allowed in (("https://example.org", "https://example.org"), ("https://evil.org", None)):
            headers = request(address, "POST", "/echo", b"x", {"Origin": origin})[1]
            assert headers.get("access-control-allow-origin") == allowed


def test_memory_and_places_after_many_requests(address: Address, endpoints: Endpoints) -> None:
    """Requests of all kinds leave nothing behind."""
    for _ in range(20):
        with closing(connected(address)) as connection:
            connection.sendall(b"POST /echo?seconds=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde")
    wait_until(lambda: endpoints.running == 0)
    assert [request(address, "POST", "/echo", b"x" * 99_000)[0] for _ in range(50)] == [200] * 50
    text = request(address, "GET", "/metrics")[2].decode()
    assert "dragoman_requests_in_progress 0.0" in text
    assert "dragoman_requests_queued 0.0" in text


UPGRADE = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\n"


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
@pytest.mark.parametrize(
    ("rest", "body"),
    [
        (b"Content-Length: 5\r\n\r\nhello", b"hello"),
        (b"Content-Length: 0\r\n\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", b"hello"),
    ],
    ids=["length", "empty", "chunked"],
)
@pytest.mark.parametrize("pause", [False, True], ids=["at once", "in parts"])
def test_an_upgrade_to_another_protocol_is_ignored(
    protocol: bytes, rest: bytes, body: bytes, pause: bool, address: Address
) -> None:
    with closing(connected(address)) as connection:
        for _ in range(2):
            sent = UPGRADE % protocol + rest
            parts = [sent[:-4], sent[-4:]] if pause else [sent]
            for part in parts:
                connection.sendall(part)
                time.sleep(0.05)
            answer = connection.recv(65536)
            assert answer.startswith(b"HTTP/1.1 200 ")
            assert answer.endswith(b"\r\n\r\n" + body)


def test_the_number_of_connections_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.serving.access.bounded_protocol.MAX_CONNECTIONS", 2)
    with serving(LIMITS, Endpoints()) as address:
        accepted = [connected(address) for _ in range(2)]
        with closing(connected(address)) as refused:
            refusal = received(refused)
            assert refusal.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nretry-after: 5\r\n" in refusal
        for connection in accepted:
            connection.close()
        wait_until(lambda: request(address, "POST", "/echo", b"hello")[0] == 200)


@pytest.mark.parametrize(("largest", "share"), [(100, 2), (3, 100)])
def test_clients_elsewhere_have_a_share_of_the_connections(
    largest: int, share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "dragoman.serving.access.bounded_protocol"
    for name, value in (("MAX_CONNECTIONS", largest), ("CLIENT_CONNECTIONS", share), ("KEPT_CONNECTIONS", 1)):
        monkeypatch.setattr(f"{module}.{name}", value)
    with serving(LIMITS, Endpoints()) as address:
        monkeypatch.setattr(f"{module}.is_loopback", lambda host: False)
        accepted = [connected(address) for _ in range(2)]
        for _ in range(2):
            with closing(connected(address)) as refused:
                assert received(refused).startswith(b"HTTP/1.1 503 ")
        monkeypatch.undo()
        # On this machine.
        assert request(address, "POST", "/echo", b"hello")[0] == 200
        for connection in accepted:
            connection.close()


def test_requests_after_an_upgrade_in_the_same_packet(address: Address) -> None:
    with closing(connected(address)) as connection:
        without_body = UPGRADE % b"h2c" + b"\r\n"
        with_body = UPGRADE % b"h2c" + b"Content-Length: 5\r\n\r\nhello"
        last = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 4\r\n\r\nlast"
        connection.sendall(without_body * 1000 + with_body * 2 + without_body + with_body + last)
        answers = received(connection)
    assert answers.count(b"HTTP/1.1 200 ") == 1005
    assert answers.count(b"\r\n\r\nhello") == 3
    assert answers.endswith(b"\r\n\r\nlast")


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [(b"1.1", 0, 400), (b"1.1", 2, 400), (b"1.1", 1, 200), (b"1.0", 0, 200), (b"1.0", 1, 200), (b"1.0", 2, 400)],
)
def test_a_request_has_one_host(version: bytes, hosts: int, status: int, address: Address) -> None:
    with closing(connected(address)) as connection:
        host = b"Host: localhost\r\n" * hosts
        connection.sendall(b"POST /echo HTTP/%s\r\n%sConnection: close\r\n\r\n" % (version, host))
        assert received(connection).startswith(b"HTTP/1.1 %d " % status)


def test_half_a_header_is_answered_when_the_server_stops() -> None:
    with serving(LIMITS, Endpoints()) as address:
        connection = connected(address)
        connection.sendall(b"POST /echo HTTP/1.1\r\nHost: ")
        time.sleep(0.1)
    with closing(connection):
        assert received(connection).startswith(b"HTTP/1.1 503 ")


def test_deletion_is_allowed_for_chosen_origins() -> None:
    with serving(LIMITS, Endpoints(), origins=["https://example.org"]) as address:
        asked = {"Origin": "https://example.org", "Access-Control-Request-Method": "DELETE"}
        assert request(address, "OPTIONS", "/echo", headers=asked)[0] == 200
