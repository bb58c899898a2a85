"""A server with LibreTranslate's interface, whose translations are the texts in upper case."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from dragoman.serving.context import Usage
from dragoman.serving.interfaces import libretranslate
from dragoman.serving.limits import Limits
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import (
    AUTO,
    Detection,
    Language,
    TextOptions,
    TranslatedText,
    TranslationService,
)
from dragoman.translation.results import Alternative, Translation
from tests.support.serving_app import behind_limits, make_context

NAMES = {"en": "English", "de": "German", "es": "Spanish"}
KEY = "the-key"
# A text whose translation waits for ever, and one whose translation fails.
ENDLESS, BROKEN = "endless", "broken"


class UpperLines:
    """Translates lines into upper case, from English into German and Spanish.

    Attributes:
        begun, cancelled: number of endless lines that were begun, and that were given up.
    """

    pairs: tuple[Pair, ...] = (("en", "de"), ("en", "es"))

    def __init__(self) -> None:
        self.begun = self.cancelled = 0

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        if line == BROKEN:
            raise LookupError(f"no such word: {line}")
        if line == ENDLESS:
            self.begun += 1
            try:
                await asyncio.sleep(1000)
            finally:
                self.cancelled += 1
        texts = [line.upper() + "!" * number for number in range(options.n_best)]
        return Translation(
            text=texts[0],
            log_probability=0.0,
            score=0.0,
            alternatives=tuple(Alternative(text=text, log_probability=0.0, score=0.0) for text in texts),
            segments=1,
            cut=False,
            truncated=False,
            invalid_utf8=False,
        )


class UpperService(TranslationService):
    """Translates each text as one line; all texts are detected to be English with a confidence of 0.87."""

    def __init__(self, lines: UpperLines) -> None:
        super().__init__(lines)
        self.lines = lines

    def languages(self) -> list[Language]:
        return [Language(code="en", name=NAMES["en"], targets=("de", "es"))]

    async def source_of(self, text: str, target: str) -> str:
        return "en"

    async def detect(self, text: str) -> list[Detection]:
        return [Detection(language="en", confidence=0.87)]

    async def translate(self, texts: Sequence[str], options: TextOptions) -> list[TranslatedText]:
        detected = (await self.detect(""))[0] if options.source == AUTO else None
        source = detected.language if detected else options.source
        pair = (source, options.target)
        if pair not in self.lines.pairs:
            raise RequestError(400, f"{source!r} to {options.target!r} is not supported")
        line_options = LineOptions(n_best=1 + options.alternatives)
        lines = await asyncio.gather(*(self.lines.translate_line(pair, text, line_options) for text in texts))
        return [
            TranslatedText(
                text=line.text,
                alternatives=tuple(each.text for each in line.alternatives[1:]),
                source=source,
                detected=detected,
            )
            for line in lines
        ]


class FakeAccess:
    """Admits all requests, or those with `KEY`; the key "often" is refused with status 429.

    Attributes:
        admitted: the key and the number of characters of each request.
    """

    def __init__(self, *, keys_required: bool = False, characters: int = 1000) -> None:
        self.keys_required = keys_required
        self.characters = characters
        self.admitted: list[tuple[str | None, int]] = []

    def admit(self, request: Request, key: str | None, characters: int) -> Receipt:
        if self.keys_required and key not in (KEY, "often"):
            raise RequestError(403, "a valid API key is needed")
        if key == "often":
            raise RequestError(429, "2 requests in a minute", retry_after=1.2)
        if characters > self.characters:
            raise RequestError(413, f"{characters} characters: send at most {self.characters}")
        self.admitted.append((key, characters))
        return Receipt()

    def admit_document(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        return self.admit(request, key, characters)

    def usage(self, key: str | None) -> Usage | None:
        """See `Access`."""
        return None


def make_app(
    directory: Path,
    *,
    service: TranslationService | None = None,
    access: FakeAccess | None = None,
    limits: Limits | None = None,
    suggestions: Path | None = None,
) -> ASGIApp:
    limits = limits or Limits()
    context = make_context(
        service or UpperService(UpperLines()), access or FakeAccess(), limits, directory, suggestions
    )
    return behind_limits(Starlette(routes=libretranslate.routes(context)), limits)


@contextmanager
def running(app: ASGIApp) -> Iterator[int]:
    """Serve an application on a free port of this machine, which is yielded."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, lifespan="off", log_level="critical", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            deadline = time.monotonic() + 20
            while not server.started:
                assert thread.is_alive()
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()
