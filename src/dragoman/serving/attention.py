"""The page of attention on this machine's own address, where any heads can be switched off and the model asked again.

For one person at this machine: it answers nobody else. A thread for each connection reads and writes, so that one that
is silent or slow keeps nobody waiting; the model answers one request after the other.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from socket import SHUT_RDWR
from threading import BoundedSemaphore, Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from dragoman.attention_page.kinds import Head
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.page import build_page
from dragoman.errors import SettingsError
from dragoman.translation.translator import Translator

if TYPE_CHECKING:
    from socket import socket

ADDRESS = "127.0.0.1"
# Bytes of a request's head, and of its body.
LONGEST_HEAD = LONGEST_REQUEST = 64 * 1024
MOST_CONNECTIONS = 64
# A request must have come, and an answer gone, within so many seconds.
SECONDS_TO_ASK = SECONDS_TO_ANSWER = 10


class AttentionServer(ThreadingHTTPServer):
    """GET / gives the page; POST /without, a list of [kind, layer, head], what the model says without these heads.

    Args:
        translator: whose model is asked.
        attention: what the page shows.
        port: 0 takes one that is free; `url` says which.

    Raises:
        SettingsError: when the port cannot be used.
        CorpusError: when the sentence is too long to draw.
    """

    request_queue_size = 2 * MOST_CONNECTIONS

    def __init__(self, translator: Translator, attention: AttentionMap, port: int = 0) -> None:
        self._room = BoundedSemaphore(MOST_CONNECTIONS)
        # Connections that have not sent their whole request, oldest first, and when they began.
        self._silent: dict[socket, float] = {}
        self._open: set[socket] = set()
        self._silent_lock = Lock()
        self._model_lock = Lock()
        self._closed = False
        self.page = build_page(attention, live=True).encode()
        self.translator = translator
        self.attention = attention
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"port {port} of {ADDRESS} cannot be used ({error}): choose another, or 0 for a free one"
            ) from error

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    @property
    def hosts(self) -> set[str]:
        """What a browser at this machine may call this server. Another site's name that points here is not among it."""
        port = self.server_address[1]
        ends = (f":{port}", "") if port == 80 else (f":{port}",)
        return {name + end for name in (ADDRESS, "localhost") for end in ends}

    def without(self, body: bytes) -> dict[str, object]:
        """The answer to a request's body; ValueError, with what is wrong, when that is no list of the model's heads."""
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("the request is not JSON") from None
        if not isinstance(asked, list):
            raise ValueError("the request is not a list of heads")
        heads = [self._head(each) for each in asked]
        with self._model_lock:
            if self._closed:
                raise ConnectionAbortedError("the server ends")
            translation, log_probability = self.translator.without(self.attention, heads)
        return {"translation": translation, "logProbability": log_probability}

    def heard(self, connection: socket) -> None:
        """Note that the whole request has come."""
        with self._silent_lock:
            self._silent.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Begin a thread for a connection; where there is no room, hang up on the one that is silent for longest."""
        if not self._room.acquire(blocking=False):
            with self._silent_lock:
                self._hang_up(list(self._silent)[:1])
            self._room.acquire()
        with self._silent_lock:
            self._silent[request] = monotonic()
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and make room for another; twice if Control-C comes while its thread begins."""
        with self._silent_lock:
            self._silent.pop(request, None)
            first = request in self._open
            self._open.discard(request)
        super().shutdown_request(request)
        if first:
            self._room.release()

    def service_actions(self) -> None:
        """Hang up on those that have been silent for too long; called again and again while the server runs."""
        latest = monotonic() - SECONDS_TO_ASK
        with self._silent_lock:
            self._hang_up([each for each, began in self._silent.items() if began < latest])

    def server_close(self) -> None:
        """Hang up on all, and wait until the model is not computing: its threads cannot be ended while they are."""
        super().server_close()
        with self._silent_lock:
            self._hang_up(list(self._silent))
        with self._model_lock:
            self._closed = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error of this program. An OSError is the connection's: an answer reads and writes nothing else."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _hang_up(self, connections: list[socket]) -> None:
        """Make their threads read the end, and so end. The lock is held, so that none is closed meanwhile."""
        for connection in connections:
            del self._silent[connection]
            with suppress(OSError):  # it may have left by itself
                connection.shutdown(SHUT_RDWR)

    def _head(self, asked: object) -> Head:
        for each in self.attention.without:
            if asked == list(each.head):
                return each.head
        raise ValueError("the request names a head that the model does not have")


class _Handler(BaseHTTPRequestHandler):
    server: AttentionServer
    raw_requestline: bytes
    # Of sending; `service_actions` sees to the time of reading.
    timeout = SECONDS_TO_ANSWER

    def parse_request(self) -> bool:
        """Parse the request's line and headers, of bounded size; return False when there is nothing more to answer."""
        # A line without a version is not followed by headers.
        head = self._read_head() if len(self.raw_requestline.split()) > 2 else b"\r\n"
        if not head:
            self.close_connection = True
            return False
        rest, self.rfile = self.rfile, BytesIO(head[:LONGEST_HEAD])
        try:
            parsed = super().parse_request()
        finally:
            self.rfile = rest
        if parsed and len(head) > LONGEST_HEAD:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        return parsed

    def _read_head(self) -> bytes:
        """Return the headers with the empty line after them, or b"" if they break off.

        Of headers that are longer than `LONGEST_HEAD`, one byte more than that.
        """
        head = b""
        while len(head) <= LONGEST_HEAD:
            line = self.rfile.readline(LONGEST_HEAD + 1 - len(head))
            head += line
            if not line:
                return b""
            if line in (b"\r\n", b"\n"):
                break
        return head

    def do_GET(self) -> None:
        self.server.heard(self.connection)
        if self._from_here() and self.path == "/":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        else:
            self._fail(HTTPStatus.NOT_FOUND, "there is nothing here but the page")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not self._from_here() or self.path != "/without":
            self._fail(HTTPStatus.NOT_FOUND, "there is nothing here but the page")
        # Only scripts of this page can send JSON: a browser asks before it lets those of another, and gets no answer.
        elif self.headers.get_content_type() != "application/json":
            self._fail(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        elif not (length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= LONGEST_REQUEST):
            self._fail(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {LONGEST_REQUEST} bytes, and say how many")
        else:
            try:
                body = self.rfile.read(int(length))
                if len(body) != int(length):
                    raise ValueError("the request is shorter than it says")
                self.server.heard(self.connection)
                answer = self.server.without(body)
            except ValueError as error:
                self._fail(HTTPStatus.BAD_REQUEST, str(error))
            else:
                self._answer(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Quiet: a person looks at the page, not at its requests."""

    def _from_here(self) -> bool:
        names = self.headers.get_all("Host", [])
        return len(names) == 1 and names[0].lower() in self.server.hosts

    def _fail(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._answer(status, "text/plain; charset=utf-8", message.encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)
