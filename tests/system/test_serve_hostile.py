"""A server of models, as a program, and hostile clients: each gets a 4xx soon, and the memory stays bounded."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from tests.support.serving_app import request
from tests.support.serving_program import Address, peak_memory_of, served
from tests.support.small_translator import write_model

# What the hostile requests of this file may add to the largest memory of the server. One document may have 10 MiB.
MOST_MEMORY = 150 << 20
# A generous limit for a machine that is busy; an answer takes milliseconds.
SECONDS = 10.0
JSON = {"Content-Type": "application/json"}
POSTS = ["/translate", "/detect", "/suggest", "/v1/translate", "/v1/translate/stream", "/v1/detect", "/v1/attention"]
POSTS += ["/v2/translate", "/v2/glossaries", "/v2/document", "/translate_file"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Address]]:
    """The process id and the address of a server."""
    model = write_model(tmp_path_factory.mktemp("model"), 0, right_to_left=False)
    data = tmp_path_factory.mktemp("data")
    options = ("--requests-per-minute", "100000", "--body-seconds", "2", "--suggestions", data / "suggestions.jsonl")
    with served(f"{model}=en-de", "--data", data, *options) as (process, address):
        valid = json.dumps({"q": "lamp", "source": "en", "target": "de"}).encode()
        assert request(address, "POST", "/translate", valid, JSON)[0] == 200
        yield process.pid, address


@pytest.fixture(autouse=True)
def bounded(server: tuple[int, Address]) -> Iterator[None]:
    """Check after each test that the server translates, soon, and that its memory was bounded."""
    process, address = server
    before = peak_memory_of(process)
    yield
    began = time.monotonic()
    assert request(address, "GET", "/ready")[0] == 200
    assert time.monotonic() - began < SECONDS
    assert peak_memory_of(process) - before < MOST_MEMORY


@pytest.fixture
def address(server: tuple[int, Address]) -> Address:
    return server[1]


def answer_to(address: Address, parts: Iterator[bytes]) -> bytes:
    """Send parts until the server closes the connection or they end; return what it answered, within `SECONDS`."""
    began = time.monotonic()
    answer = b""
    with closing(socket.create_connection(address, timeout=SECONDS)) as connection:
        with suppress(ConnectionError):
            for part in parts:
                connection.sendall(part)
                assert time.monotonic() - began < SECONDS
        with suppress(ConnectionError):
            while part := connection.recv(65536):
                answer += part
    assert time.monotonic() - began < SECONDS
    return answer


def refused(answer: bytes) -> bool:
    """Return whether an answer is a 4xx, or the connection was closed without one."""
    return not answer or answer.startswith(b"HTTP/1.1 4")


DEEP = {
    "arrays": b"[" * 10_000 + b"]" * 10_000,
    "arrays that do not end": b"[" * 500_000,
    "objects": b'{"q":' * 10_000 + b"1" + b"}" * 10_000,
    "in a value": b'{"source":"en","target":"de","q":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "many values": b'{"q":[' + b"0," * 400_000 + b'0],"source":"en","target":"de"}',
    "a long number": b'{"q":"a","source":"en","target":"de","alternatives":' + b"9" * 500_000 + b"}",
    "a large exponent": b'{"q":"a","source":"en","target":"de","alternatives":1e999999}',
    "not a number": b'{"q":"a","source":"en","target":"de","alternatives":NaN}',
    "many names": b'{"q":"a",' + b",".join(b'"%d":0' % number for number in range(60_000)) + b"}",
    "twice": b'{"q":"a","q":["b"],"source":"en","target":5}',
    "wrong types": b'{"q":{"a":1},"s":1,"text":{"a":[]},"texts":5,"source":[],"target":null,"target_lang":7}',
    "not utf-8": b'{"q":"\xff\xfe","source":"en","target":"de"}',
    "utf-16": '{"q":"a","source":"en","target":7}'.encode("utf-16"),
    "nul": b"\0" * 100_000,
    "empty": b"",
}


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize("body", DEEP.values(), ids=DEEP)
def test_json_that_no_client_means(path: str, body: bytes, address: Address) -> None:
    began = time.monotonic()
    status, _, answer = request(address, "POST", path, body, JSON)
    # LibreTranslate's /detect ignores what it has no use for.
    assert 400 <= status < 500 or (path == "/detect" and status == 200), answer[:200]
    assert time.monotonic() - began < SECONDS


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "kind",
    [
        "application/json; charset=utf-7",
        "application/json; charset=\x7f",
        "application/x-www-form-urlencoded; charset=no-such",
        "multipart/form-data",
        "multipart/form-data; boundary=" + "x" * 5000,
        "multipart/form-data; boundary=",
        "text/plain; charset=utf-16",
        "/;;;=",
    ],
)
def test_content_types_that_no_client_means(path: str, kind: str, address: Address) -> None:
    for body in (b"\xff\xfe\0{", b"--x\r\n\r\n", b"%ff=%00&%%%"):
        status, _, answer = request(address, "POST", path, body, {"Content-Type": kind})
        assert 400 <= status < 500, answer[:200]


@pytest.mark.parametrize("text", ["\ud800", "a\udfff\ud800b", "\0", "a\0b\0", "\ufffe\uffff", "\u202e\u0007\x1b[2J"])
def test_texts_of_odd_characters(text: str, address: Address) -> None:
    for path, names in (
        ("/translate", {"q": text, "source": "en", "target": "de"}),
        ("/v1/translate", {"texts": [text], "source": "en", "target": "de"}),
        ("/v2/translate", {"text": [text], "source_lang": "EN", "target_lang": "DE"}),
        ("/detect", {"q": text}),
        ("/translate", {"q": "lamp", "source": text, "target": text}),
        ("/v2/glossaries", {"name": text, "source_lang": "EN", "target_lang": "DE", "entries": f"a\t{text}"}),
    ):
        status, _, answer = request(address, "POST", path, json.dumps(names).encode(), JSON)
        assert 200 <= status < 500, (path, answer[:200])


def head(path: str, *lines: bytes) -> bytes:
    return b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n" + b"".join(line + b"\r\n" for line in lines)


@pytest.mark.parametrize("path", ["/translate", "/v2/document", "/translate_file", "/nothing"])
def test_a_gigabyte_that_is_announced(path: str, address: Address) -> None:
    def sent() -> Iterator[bytes]:
        yield head(path, b"Content-Length: 1073741824") + b"\r\n"
        for _ in range(1024):
            yield b"x" * (1 << 20)

    assert refused(answer_to(address, sent()))


@pytest.mark.parametrize("path", ["/translate", "/v2/document", "/translate_file", "/nothing"])
@pytest.mark.parametrize("size", [1, 1 << 10, 1 << 20])
def test_chunks_that_do_not_end(path: str, size: int, address: Address) -> None:
    chunk = b"%x\r\n" % size + b"x" * size + b"\r\n"

    def sent() -> Iterator[bytes]:
        yield head(path, b"Transfer-Encoding: chunked") + b"\r\n"
        for _ in range(1 << 30):
            yield chunk * (1 + (1 << 18) // len(chunk))

    assert refused(answer_to(address, sent()))


def test_a_header_line_of_100_megabytes(address: Address) -> None:
    def sent() -> Iterator[bytes]:
        yield head("/translate") + b"X-Name: "
        for _ in range(100):
            yield b"x" * 1_000_000

    assert refused(answer_to(address, sent()))


def test_a_million_headers(address: Address) -> None:
    def sent() -> Iterator[bytes]:
        yield head("/translate")
        for number in range(1000):
            yield b"".join(b"X-%d-%d: y\r\n" % (number, other) for other in range(1000))

    assert refused(answer_to(address, sent()))


def test_a_form_of_thousands_of_parts(address: Address) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="%d"%s\r\n\r\nlamp\r\n'
    for path in ("/translate", "/translate_file", "/v2/document"):
        for file_name in (b"", b'; filename="a.txt"'):
            body = b"".join(part % (number, file_name) for number in range(10_000)) + b"--x--\r\n"
            kind = {"Content-Type": "multipart/form-data; boundary=x"}
            status, _, answer = request(address, "POST", path, body, kind)
            assert 400 <= status < 500, answer[:200]
    fields = b"&".join(b"q=%d" % number for number in range(100_000))
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert request(address, "POST", "/translate", fields, form)[0] in range(400, 500)
    assert request(address, "POST", "/v2/translate", fields.replace(b"q=", b"text="), form)[0] in range(400, 500)


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "../../etc/passwd",
        "%2e%2e/usage.json",
        "..%5cusage.json",
        "%2fetc%2fpasswd",
        "usage.json",
        "%00",
        "a%00.txt",
        "." * 5000,
        "%c0%ae%c0%ae%c0%af",
        "~root",
        "%ed%a0%80",
    ],
)
def test_paths_that_are_not_of_a_document(name: str, address: Address) -> None:
    for path in ("/download_file/", "/v2/document/", "/v2/glossaries/", "/static/", "/docs/"):
        for method in ("GET", "POST", "DELETE"):
            status, _, answer = request(address, method, path + name)
            assert 400 <= status < 500, (method, path, answer[:200])
            assert b"root:" not in answer


def test_uploaded_names_stay_names(address: Address) -> None:
    for name in ("../../../tmp/x.txt", "/etc/passwd", "a\\b.txt", "x" * 3000 + ".txt", "\u202etxt.exe"):
        body = (
            b'--x\r\nContent-Disposition: form-data; name="source"\r\n\r\nen\r\n'
            b'--x\r\nContent-Disposition: form-data; name="target"\r\n\r\nde\r\n'
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="' + name.encode() + b'"\r\n\r\n'
            b"lamp\r\n--x--\r\n"
        )
        status, _, answer = request(
            address, "POST", "/translate_file", body, {"Content-Type": "multipart/form-data; boundary=x"}
        )
        assert status < 500, answer[:200]
        if status == 200:
            url = str(json.loads(answer)["translatedFileUrl"])
            path = url[url.index("/download_file/") :]
            assert path.count("/") == 2
            assert request(address, "GET", path)[::2] == (200, b"lamp")


def test_slow_clients_are_cut_off_and_do_not_delay_others(address: Address) -> None:
    connections = [socket.create_connection(address, timeout=SECONDS) for _ in range(200)]
    try:
        for number, connection in enumerate(connections):
            connection.sendall(head("/translate", *([b"Content-Length: 10"] * (number % 2)))[: 30 + number])
        began = time.monotonic()
        assert request(address, "GET", "/ready")[0] == 200
        assert time.monotonic() - began < SECONDS
        # Each is closed, whatever it sends, within the time of a header and that of a body.
        for connection in connections:
            with suppress(ConnectionError):
                connection.sendall(b"x")
                while part := connection.recv(65536):
                    assert part.startswith(b"HTTP/1.1 4")
    finally:
        for connection in connections:
            connection.close()
