"""HTTP server for the attention page, on which any heads can be switched off and the text translated again.

The server is for a single user: it listens on the loopback address only and checks the Host header. Each connection has
a thread of its own, so that a slow client does not delay others; the model handles one request at a time.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Collection
from contextlib import ExitStack, suppress
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
from dragoman.interrupts import ENDING

if TYPE_CHECKING:
    from socket import socket

ADDRESS = "127.0.0.1"
# Largest sizes of the header and the body of a request, in bytes.
MAX_HEADER_BYTES = MAX_BODY_BYTES = 64 * 1024
MAX_CONNECTIONS = 64
# Time limits for receiving a request and for sending the response, in seconds.
REQUEST_SECONDS = RESPONSE_SECONDS = 10

Without = Callable[[AttentionMap, Collection[Head]], tuple[str, float]]


class AttentionServer(ThreadingHTTPServer):
    """Server for the page of an attention map.

    GET / returns the page. POST /without, with a JSON list of [kind, layer, head], returns the output without these
    heads, and the log-probability of the map's translation or text without them.

    Args:
        without: returns both for some heads: `Translator.translate_without` or `TextAnalyzer.predict_without`.
        attention: the map to show, made with `without_heads`.
        port: the TCP port; 0 selects a free one, see `url`.

    Raises:
        SettingsError: if the port cannot be used.
        CorpusError: if the sentence is too long to draw.
    """

    request_queue_size = 2 * MAX_CONNECTIONS
    # Longest time for which `handle_request` waits, in seconds.
    timeout = 0.25
    # `server_close` waits for the threads: one that frees the model's tensors while the interpreter ends aborts it.
    daemon_threads = False

    def __init__(self, without: Without, attention: AttentionMap, port: int = 0) -> None:
        self._slots = BoundedSemaphore(MAX_CONNECTIONS)
        # Connections whose request has not been received completely, with their start times, oldest first.
        self._pending: dict[socket, float] = {}
        self._open: set[socket] = set()
        # Guards `_pending` and `_open`.
        self._connections_lock = Lock()
        self._model_lock = Lock()
        self._closed = False
        self.page = build_page(attention, live=True).encode()
        self.without = without
        self.attention = attention
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            raise SettingsError(
                f"cannot use port {port} of {ADDRESS} ({error}): use another port, or 0 for a free one"
            ) from error

    @property
    def url(self) -> str:
        """URL of the page."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"

    @property
    def hosts(self) -> set[str]:
        """Accepted values of the Host header. Names of other sites that resolve to this address are refused."""
        port = self.server_address[1]
        suffixes = (f":{port}", "") if port == 80 else (f":{port}",)
        return {name + suffix for name in (ADDRESS, "localhost") for suffix in suffixes}

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM, which then takes effect; for the main thread."""
        # An exception raised by a signal handler could lose a connection while its thread starts.
        arrived: list[int] = []
        with ExitStack() as stack:
            for number in ENDING:
                handler = signal.getsignal(number)
                if handler != signal.SIG_IGN:
                    stack.callback(signal.signal, number, handler)
                    signal.signal(number, lambda number, _: arrived.append(number))
            while not arrived:
                self.handle_request()
                self.service_actions()
        signal.raise_signal(arrived[0])

    def output_without(self, body: bytes) -> dict[str, object]:
        """Return the response to the body of a request; raise ValueError if it is not a list of the model's heads."""
        try:
            requested = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("the request is not JSON") from None
        if not isinstance(requested, list):
            raise ValueError("the request is not a list of heads")
        heads = [self._head(item) for item in requested]
        with self._model_lock:
            if self._closed:
                raise ConnectionAbortedError("the server is closed")
            output, log_probability = self.without(self.attention, heads)
        return {"translation": output, "logProbability": log_probability}

    def mark_received(self, connection: socket) -> None:
        """Record that the request of a connection has been received completely."""
        with self._connections_lock:
            self._pending.pop(connection, None)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection; if there are too many, disconnect the oldest pending one."""
        if not self._slots.acquire(blocking=False):
            with self._connections_lock:
                self._disconnect(list(self._pending)[:1])
            self._slots.acquire()
        with self._connections_lock:
            self._pending[request] = monotonic()
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection and free its slot."""
        with self._connections_lock:
            self._pending.pop(request, None)
            self._open.remove(request)
        super().shutdown_request(request)
        self._slots.release()

    def service_actions(self) -> None:
        """Disconnect connections that exceed the time limit; called regularly while the server runs."""
        latest = monotonic() - REQUEST_SECONDS
        with self._connections_lock:
            self._disconnect([connection for connection, start in self._pending.items() if start < latest])

    def server_close(self) -> None:
        """Disconnect all connections as soon as the model is idle: its computation cannot be interrupted."""
        with self._connections_lock:
            self._disconnect(list(self._pending))
        with self._model_lock:
            self._closed = True
        with self._connections_lock:
            for connection in self._open:
                _shut_down(connection)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report an error, unless it is an OSError: handlers access only the connection, which a client may close."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def _disconnect(self, connections: list[socket]) -> None:
        """Shut down connections, so that their threads end.

        The caller must hold the lock, so that no connection is closed meanwhile.
        """
        for connection in connections:
            del self._pending[connection]
            _shut_down(connection)

    def _head(self, requested: object) -> Head:
        for ablation in self.attention.without:
            if requested == list(ablation.head):
                return ablation.head
        raise ValueError("the request names a head that the model does not have")


def _shut_down(connection: socket) -> None:
    with suppress(OSError):  # the client may have closed it
        connection.shutdown(SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Handler of one connection, which carries one request."""

    server: AttentionServer
    raw_requestline: bytes
    # Time limit for sending; `AttentionServer.service_actions` limits the time for receiving.
    timeout = RESPONSE_SECONDS

    def parse_request(self) -> bool:
        """Parse the request line and the headers, with a limited size; return False if no response is to be sent."""
        # A request line without a version (HTTP/0.9) is not followed by headers.
        head = self._read_headers() if len(self.raw_requestline.split()) > 2 else b"\r\n"
        if not head:
            self.close_connection = True
            return False
        body, self.rfile = self.rfile, BytesIO(head[:MAX_HEADER_BYTES])
        try:
            parsed = super().parse_request()
        finally:
            self.rfile = body
        if parsed and len(head) > MAX_HEADER_BYTES:
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            return False
        return parsed

    def _read_headers(self) -> bytes:
        """Return the headers with the empty line after them, or b"" if the connection ends before it.

        Reads at most `MAX_HEADER_BYTES` + 1 bytes.
        """
        head = b""
        while len(head) <= MAX_HEADER_BYTES:
            line = self.rfile.readline(MAX_HEADER_BYTES + 1 - len(head))
            head += line
            if not line:
                return b""
            if line in (b"\r\n", b"\n"):
                break
        return head

    def do_GET(self) -> None:
        """Send the page."""
        self.server.mark_received(self.connection)
        if self._has_valid_host() and self.path == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        else:
            self._send_error_text(HTTPStatus.NOT_FOUND, "not found: the page is at /")

    def do_POST(self) -> None:
        """Send the output without some heads."""
        length = self.headers.get("Content-Length", "")
        if not self._has_valid_host() or self.path != "/without":
            self._send_error_text(HTTPStatus.NOT_FOUND, "not found: the page is at /")
        # Only scripts of this page can send JSON: for scripts of other sites, a browser first sends a preflight request
        # (CORS), which fails.
        elif self.headers.get_content_type() != "application/json":
            self._send_error_text(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send application/json")
        elif not (length.isascii() and length.isdigit() and len(length) < 8 and int(length) <= MAX_BODY_BYTES):
            self._send_error_text(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send at most {MAX_BODY_BYTES} bytes, with Content-Length"
            )
        else:
            try:
                body = self.rfile.read(int(length))
                if len(body) != int(length):
                    raise ValueError("the request is shorter than its Content-Length")
                self.server.mark_received(self.connection)
                response = self.server.output_without(body)
            except ValueError as error:
                self._send_error_text(HTTPStatus.BAD_REQUEST, str(error))
            else:
                self._send(HTTPStatus.OK, "application/json", json.dumps(response).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Do not log requests."""

    def _has_valid_host(self) -> bool:
        names = self.headers.get_all("Host", [])
        return len(names) == 1 and names[0].lower() in self.server.hosts

    def _send_error_text(self, status: HTTPStatus, message: str) -> None:
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", message.encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)
