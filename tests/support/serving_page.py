"""A server with the page and the interface below /v1, whose translations come from a list of words."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import ASGIApp

from dragoman.serving import page
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.context import Usage
from dragoman.serving.interfaces import own
from dragoman.serving.limits import Limits
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TranslationService
from dragoman.serving.workers.attention_worker import attention_of
from dragoman.translation.results import Alternative, Translation
from tests.support.serving_app import behind_limits, make_context
from tests.support.small_translator import random_translator

PAIRS = (("en", "de"), ("de", "en"))
# Whole sentences first; other ones are translated word by word.
SENTENCES = {
    "Good morning.": ("Guten Morgen.", "Guten Tag.", "Schönen guten Morgen."),
    "Good morning, everyone.": ("Guten Morgen allerseits.", "Guten Morgen zusammen.", "Guten Morgen, ihr alle."),
    "The museum is closed on Mondays.": (
        "Das Museum ist montags geschlossen.",
        "Das Museum hat montags geschlossen.",
        "Montags ist das Museum geschlossen.",
    ),
    "Please leave your coats and bags at the entrance.": (
        "Bitte lassen Sie Ihre Mäntel und Taschen am Eingang.",
        "Bitte geben Sie Ihre Mäntel und Taschen am Eingang ab.",
        "Lassen Sie bitte Mäntel und Taschen am Eingang.",
    ),
    "The bark of the old tree fell silent.": (
        "Die Rinde des alten Baumes verstummte.",
        "Das Bellen des alten Baumes verstummte.",
        "Die Rinde des alten Baums wurde still.",
    ),
}
# Confidence of sentences with these words, as of a calibrated model; other ones have none.
CONFIDENCES = {"museum": 0.624, "coats": 0.876, "tune": 0.123}
WORDS = {"the": "das", "house": "Haus", "is": "ist", "old": "alt", "good": "gut", "and": "und", "red": "rot"}
# A sentence with this word takes as many seconds as it has, so that it can be cancelled.
SLOW = "slowly"


class WordLines:
    """A `LineTranslator` that replaces words, and records which lines it began, finished and gave up.

    Attributes:
        began: the lines that were begun, in order.
        finished: those that were finished.
        cancelled: those that were given up.
    """

    def __init__(self) -> None:
        self.began: list[str] = []
        self.finished: list[str] = []
        self.cancelled: list[str] = []

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """See `LineTranslator`."""
        return PAIRS

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`."""
        self.began.append(line)
        try:
            await asyncio.sleep(30 if SLOW in line else 0.02)
        except asyncio.CancelledError:
            self.cancelled.append(line)
            raise
        if "unlucky" in line:
            raise RequestError(503, "the worker stopped", retry_after=1)
        self.finished.append(line)
        return translation_of(line, options)


def translation_of(line: str, options: LineOptions) -> Translation:
    """Return the translation of a line; white space around it is kept."""
    core = line.strip()
    if "\n" in core:
        outputs: tuple[str, ...] = ("\n".join(translation_of(each, options).text for each in core.split("\n")),)
    else:
        translated = " ".join(WORDS.get(word.lower(), word) for word in core.split(" "))
        outputs = SENTENCES.get(core) or tuple(translated + mark for mark in ("", " (2)", " (3)"))
    if options.prefix:
        fitting = tuple(output for output in outputs if output.startswith(options.prefix))
        outputs = fitting or tuple(f"{options.prefix} ({n})" for n in range(3))
    start, end = line[: len(line) - len(line.lstrip())], line[len(line.rstrip()) :] if core else ""
    # The bark of a tree is uncertain.
    scores = [(-4.5 if "bark" in line else -0.8) - 0.4 * n for n in range(len(outputs))]
    best = tuple(
        Alternative(text=start + text + end, log_probability=2 * score, score=score)
        for text, score in zip(outputs, scores, strict=True)
    )
    count = min(len(core.split()), len(outputs[0].split()))
    return Translation(
        text=best[0].text,
        log_probability=best[0].log_probability,
        score=best[0].score,
        alternatives=best[: options.n_best],
        segments=1,
        cut=False,
        truncated="endless" in line,
        invalid_utf8=False,
        confidence=next((value for word, value in CONFIDENCES.items() if word in line), None),
        word_probabilities=tuple(0.05 if word in ("bark", "Rinde") else 0.9 for word in outputs[0].split(" "))
        if options.words
        else None,
        alignment=tuple((n, n) for n in range(count)) if options.alignment else None,
    )


class OpenAccess:
    """An `Access` that counts characters, and asks for a key if it has one.

    Args:
        limits: the limit of characters is applied.
        key: the key that requests need; None for none.
    """

    def __init__(self, limits: Limits, key: str | None = None) -> None:
        self.key = key
        self.characters = 0
        self._limits = limits

    @property
    def keys_required(self) -> bool:
        """See `Access`."""
        return self.key is not None

    def admit(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        if key != self.key and self.key is not None:
            raise RequestError(403, "the key is missing or unknown")
        if characters > self._limits.characters:
            raise RequestError(413, f"{characters} characters are more than {self._limits.characters}")
        self.characters += characters
        return Receipt()

    def admit_document(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        return self.admit(request, key, characters)

    def usage(self, key: str | None) -> Usage | None:
        """See `Access`."""
        return None


class RandomAttention:
    """An `AttentionSource` with a small model of random weights, which has none to show for "opaque"."""

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        """See `AttentionSource`."""
        if text == "opaque":
            raise RequestError(400, "this model has no attention, so there is nothing to show")
        translator = random_translator(max_source_tokens=200)
        return await asyncio.to_thread(attention_of, translator, text, translation, form)


def make_app(lines: WordLines, data: Path, *, limits: Limits | None = None, key: str | None = None) -> ASGIApp:
    """Return an application with the page and /v1."""
    limits = limits or Limits()
    context = make_context(
        TranslationService(lines), OpenAccess(limits, key), limits, data, attention=RandomAttention()
    )
    return behind_limits(Starlette(routes=[*own.routes(context), *page.routes(context)]), limits)


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve an application on a free port in a thread, and return its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1))
    thread = Thread(target=server.run, args=([listener],))
    thread.start()
    start = monotonic()
    while not server.started and monotonic() - start < 10:
        sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
