"""The page of attention on this machine's own address, where any heads can be switched off and the model asked again.

For one person at this machine: it answers nobody else, one request after the other.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer

from dragoman.attention_page.kinds import Head
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.page import build_page
from dragoman.errors import SettingsError
from dragoman.translation.translator import Translator

ADDRESS = "127.0.0.1"
LONGEST_REQUEST = 64 * 1024


class AttentionServer(HTTPServer):
    """GET / gives the page; POST /without, a list of [kind, layer, head], what the model says without these heads.

    Args:
        translator: whose model is asked.
        attention: what the page shows.
        port: 0 takes one that is free; `url` says which.

    Raises:
        SettingsError: when the port cannot be used.
        CorpusError: when the sentence is too long to draw.
    """

    def __init__(self, translator: Translator, attention: AttentionMap, port: int = 0) -> None:
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

    def without(self, body: bytes) -> dict[str, object]:
        """The answer to a request's body; ValueError, with what is wrong, when that is no list of the model's heads."""
        try:
            asked = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("the request is not JSON") from None
        if not isinstance(asked, list):
            raise ValueError("the request is not a list of heads")
        heads = [self._head(each) for each in asked]
        translation, log_probability = self.translator.without(self.attention, heads)
        return {"translation": translation, "logProbability": log_probability}

    def _head(self, asked: object) -> Head:
        for each in self.attention.without:
            if asked == list(each.head):
                return each.head
        raise ValueError("the request names a head that the model does not have")


class _Handler(BaseHTTPRequestHandler):
    server: AttentionServer
    # A client that says nothing more does not keep others waiting for long.
    timeout = 10

    def do_GET(self) -> None:
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
                answer = self.server.without(self.rfile.read(int(length)))
            except ValueError as error:
                self._fail(HTTPStatus.BAD_REQUEST, str(error))
            else:
                self._answer(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        """Quiet: a person looks at the page, not at its requests."""

    def _from_here(self) -> bool:
        # Another site's name that has been made to point here is not ours.
        return self.headers.get("Host") == self.server.url.removeprefix("http://").removesuffix("/")

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
