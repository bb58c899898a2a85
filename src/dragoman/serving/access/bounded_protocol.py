"""`BoundedProtocol`: uvicorn's protocol with limits of what it does not limit itself.

uvicorn has no limit for the size of a header, for the time in which it arrives, for what surrounds a chunked body
(extensions of chunks, trailers), and for the time in which a client reads its response. It also loses the body of a
request that offers to upgrade to another protocol, as the HTTP client of Java does by default.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from dragoman.serving.access.addresses import client_of, is_loopback
from dragoman.serving.limits import Limits

MAX_HEADER_BYTES = 64 * 1024
# Bytes that a chunked body may have on the wire for each byte of its content: chunks of one byte have six.
CHUNK_OVERHEAD = 8
MAX_CONNECTIONS = 768
# Those connections that only clients on this machine may use, so that /ready can be asked when the others are taken.
KEPT_CONNECTIONS = 32
# Connections of a client at another address. No limit applies behind a proxy, whose address all clients have.
CLIENT_CONNECTIONS = 64
# Seconds after which a client may try again.
RETRY_SECONDS = 5


class BoundedProtocol(HttpToolsProtocol):
    """HTTP/1.1 on one connection, with limits. `bounded_protocol` returns a subclass that has the limits."""

    limits: Limits
    behind_proxy: bool
    # Number of connections of each client that is not on this machine.
    connections_of: Counter[str]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._in_header = True
        # Bytes of this request that have arrived, and how many may.
        self._received, self._accepted = 0, MAX_HEADER_BYTES
        self._data = self._rest = b""
        self._remote = ""
        # True between the header and the body of a request that offers an upgrade; while a parser is given its header.
        self._body_is_skipped = self._header_is_known = False
        self._header_timer: asyncio.TimerHandle | None = None
        self._reading_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse the connection if there are too many."""
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self._remote = "" if is_loopback(host) else client_of(host)
        self.connections_of[self._remote] += 1
        if self._has_no_place():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            self._limit_header_time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_header_timer()
        self._stop_reading_timer()
        self.connections_of[self._remote] -= 1
        if not self.connections_of[self._remote]:
            del self.connections_of[self._remote]
        super().connection_lost(exc)

    def _has_no_place(self) -> bool:
        if not self._remote:
            return len(self.connections) > MAX_CONNECTIONS
        return len(self.connections) > MAX_CONNECTIONS - KEPT_CONNECTIONS or (
            not self.behind_proxy and self.connections_of[self._remote] > CLIENT_CONNECTIONS
        )

    def shutdown(self) -> None:
        """Refuse a request whose header has arrived in part when the server stops."""
        if self._received and not self._answering and not self.transport.is_closing():
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE)
        else:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        """Parse data, and refuse more of it than a request may have beside its body."""
        self._received += len(data)
        while data and not self.transport.is_closing():
            self._data, self._rest = data, b""
            super().data_received(data)
            data = self._rest
        if self.transport.is_closing():
            return
        if self._received > self._accepted:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        elif self._in_header and not self._answering:
            self._limit_header_time()

    def on_message_begin(self) -> None:
        """Begin a request."""
        if not self._header_is_known:
            super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Store a part of the URL."""
        if not self._header_is_known:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Store a header."""
        if not self._header_is_known:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Stop the timer of the header."""
        if self._header_is_known:
            return
        self._in_header = False
        self._body_is_skipped = self.parser.should_upgrade() and bool(self._body_headers())
        self._stop_header_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Accept the bytes of the body, whose number the application limits."""
        self._accepted += CHUNK_OVERHEAD * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Begin to count anew."""
        if self._body_is_skipped:
            return
        self._in_header = True
        self._received, self._accepted = 0, MAX_HEADER_BYTES
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Limit the time for reading the end of the last response."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._limit_reading_time()

    def pause_writing(self) -> None:
        """Limit the time for which the client does not read."""
        super().pause_writing()
        self._limit_reading_time()

    def resume_writing(self) -> None:
        """Stop that timer."""
        self._stop_reading_timer()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Continue with a new parser: httptools skips the body of a request that offers an upgrade."""
        upgrade = sys.exception()
        assert isinstance(upgrade, httptools.HttpParserUpgrade)
        # The next request may have arrived, too.
        self._rest = self._data[upgrade.args[0] :]
        if not self._body_is_skipped:
            return
        self._body_is_skipped = False
        self.parser = httptools.HttpRequestParser(self)
        self._header_is_known = True
        self.parser.feed_data(b"POST / HTTP/1.1\r\n" + b"".join(self._body_headers()) + b"\r\n")
        self._header_is_known = False

    def _body_headers(self) -> list[bytes]:
        """Return the lines of the header that state where the body ends."""
        names = (b"content-length", b"transfer-encoding")
        return [b"%s: %s\r\n" % header for header in self.headers if header[0] in names]

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _limit_header_time(self) -> None:
        if self._header_timer is None:
            self._header_timer = self.loop.call_later(self.limits.body_seconds, self._header_is_late)

    def _header_is_late(self) -> None:
        self._header_timer = None
        if self._answering or self.transport.is_closing():
            return
        if self._received:
            self._refuse(HTTPStatus.REQUEST_TIMEOUT)
        else:
            # Browsers open connections in advance.
            self.transport.close()

    def _limit_reading_time(self) -> None:
        if self._reading_timer is None:
            self._reading_timer = self.loop.call_later(self.limits.request_seconds, self.transport.abort)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_reading_timer(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _refuse(self, status: HTTPStatus) -> None:
        if not (self._answering and self.cycle.response_started):
            body = status.phrase.encode()
            later = b"retry-after: %d\r\n" % RETRY_SECONDS if status == HTTPStatus.SERVICE_UNAVAILABLE else b""
            self.transport.write(
                b"HTTP/1.1 %d %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n%s"
                b"connection: close\r\n\r\n%s" % (status, body, len(body), later, body)
            )
        self.transport.close()
        self._limit_reading_time()


def bounded_protocol(limits: Limits, *, behind_proxy: bool = False) -> type[BoundedProtocol]:
    """Return the class of the connections of a server with these limits.

    Args:
        limits: the limits.
        behind_proxy: True if the connections are those of proxies.
    """

    class Limited(BoundedProtocol):
        pass

    Limited.limits, Limited.behind_proxy, Limited.connections_of = limits, behind_proxy, Counter()
    return Limited
