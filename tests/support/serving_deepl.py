"""A server of DeepL's interface whose translations are the source in upper case."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from dragoman.serving.context import Access, Usage
from dragoman.serving.interfaces.deepl import routes
from dragoman.serving.limits import Limits
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TranslationService
from dragoman.translation.results import Translation
from tests.support.serving_app import behind_limits, make_context

KEY = "a-key"
PAIRS = (("en", "de"), ("de", "en"), ("en", "pt"))


class UpperCase:
    """A `LineTranslator` that returns its input in upper case.

    Args:
        error: raised instead for a line that contains "fail".
    """

    pairs: tuple[Pair, ...] = PAIRS

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error or RequestError(503, "the worker is gone", retry_after=0.01)
        self.gate = asyncio.Event()
        self.gate.set()

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`."""
        await self.gate.wait()
        if "fail" in line:
            raise self.error
        return Translation(
            text=line.upper(),
            log_probability=-1.0,
            score=-1.0,
            alternatives=(),
            segments=1,
            cut=False,
            truncated=False,
            invalid_utf8=False,
        )


class OneKey:
    """An `Access` that admits one key and counts what it admits.

    Args:
        key: the key; None to admit every request.
        error: raised for every request with a key that is admitted otherwise.
    """

    def __init__(self, key: str | None = KEY, error: RequestError | None = None) -> None:
        self.key = key
        self.error = error
        self.admitted: list[int] = []

    @property
    def keys_required(self) -> bool:
        """See `Access`."""
        return self.key is not None

    def admit(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        if self.key is not None and key != self.key:
            raise RequestError(403, "the key is missing or unknown")
        if self.error is not None:
            raise self.error
        self.admitted.append(characters)
        return Receipt()

    def admit_document(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        return self.admit(request, key, characters)

    def usage(self, key: str | None) -> Usage | None:
        """See `Access`."""
        return None


def application(
    data: Path, *, lines: UpperCase | None = None, access: Access | None = None, limits: Limits | None = None
) -> ASGIApp:
    """Return an application that consists of the interface behind limits."""
    limits = limits or Limits()
    context = make_context(TranslationService(lines or UpperCase()), access or OneKey(), limits, data)
    return behind_limits(Starlette(routes=routes(context)), limits)


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an application on a free port of this machine, and yield its URL."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, timeout_keep_alive=30, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
