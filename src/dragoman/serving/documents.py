"""`Documents`: uploaded documents, which are translated in the background and can be fetched once."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dragoman.serving.document_formats import DocumentFormat
from dragoman.serving.request_error import RequestError
from dragoman.serving.service import AUTO, TextOptions, TranslationService

State = Literal["queued", "translating", "done", "error"]

_TEXTS_AT_ONCE = 8
_DETECTION_CHARACTERS = 2000
_ATTEMPTS = 10
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    """Limits of the documents that are stored.

    Attributes:
        documents: Documents that are stored at the same time.
        stored_bytes: Bytes of all documents that are stored, as uploaded or translated.
        at_once: Documents that are translated at the same time.
        seconds: Seconds in which a document must be translated, and then seconds until the result is deleted.
    """

    documents: int = 100
    stored_bytes: int = 128 << 20
    at_once: int = 2
    seconds: float = 3600.0


@dataclass(kw_only=True)
class Document:
    """An uploaded document.

    Attributes:
        identifier: random characters that name it.
        key: random characters without which neither its status nor its result is given.
        owner: who uploaded it.
        name: its file name.
        format: its format.
        characters: characters of its texts.
        content: the document as uploaded; its translation when it is done; empty after an error.
        state: where its translation is.
        progress: share of the texts that are translated, 0 to 1.
        error: why it could not be translated.
        changed: time of the last change of its state, on the monotonic clock.
    """

    identifier: str
    key: str
    owner: str
    name: str
    format: DocumentFormat
    characters: int
    content: bytes
    state: State = "queued"
    progress: float = 0.0
    error: str = ""
    changed: float = 0.0

    @property
    def finished(self) -> bool:
        """True if nothing more happens to it."""
        return self.state in ("done", "error")

    def seconds_remaining(self) -> int:
        """Estimate the seconds until it is translated."""
        if self.state != "translating" or not self.progress:
            return 0 if self.finished else 1
        return math.ceil((time.monotonic() - self.changed) * (1 / self.progress - 1))

    def enter(self, state: State) -> None:
        """Set the state."""
        self.state = state
        self.changed = time.monotonic()


class Documents:
    """Uploaded documents, in memory: none survives the end of the process.

    All methods must be called from one event loop.

    Args:
        service: translates texts.
        limits: the limits.
    """

    def __init__(self, service: TranslationService, limits: DocumentLimits | None = None) -> None:
        self._service = service
        self._limits = limits or DocumentLimits()
        self._documents: dict[str, Document] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(self._limits.at_once)

    def add(
        self,
        *,
        owner: str,
        name: str,
        content: bytes,
        document_format: DocumentFormat,
        texts: Sequence[str],
        options: TextOptions,
    ) -> Document:
        """Store a document and begin its translation in the background.

        Args:
            owner: who may see its status and fetch its result.
            name: its file name.
            content: the document.
            document_format: its format.
            texts: its texts, as the format returns them.
            options: how it is translated.

        Raises:
            RequestError: with status 429 if too much is stored.
        """
        self._forget_old()
        stored = sum(len(document.content) for document in self._documents.values())
        if len(self._documents) >= self._limits.documents or stored + len(content) > self._limits.stored_bytes:
            raise RequestError(429, "too many documents are stored: fetch results, or try again later", retry_after=60)
        document = Document(
            identifier=secrets.token_hex(16).upper(),
            key=secrets.token_hex(32).upper(),
            owner=owner,
            name=name,
            format=document_format,
            characters=sum(map(len, texts)),
            content=content,
        )
        document.enter("queued")
        self._documents[document.identifier] = document
        task = asyncio.create_task(self._translate(document, texts, options))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return document

    def get(self, owner: str, identifier: str, key: str) -> Document:
        """Return a document.

        Raises:
            RequestError: with status 404 if the owner has no such document, or the key is not that of the document.
        """
        self._forget_old()
        document = self._documents.get(identifier)
        expected = document.key if document is not None and document.owner == owner else secrets.token_hex(32)
        if not secrets.compare_digest(key.encode(), expected.encode()) or document is None:
            raise RequestError(404, "there is no document with this document_id and document_key")
        return document

    def take(self, owner: str, identifier: str, key: str) -> Document:
        """Return a translated document, which is no longer stored then.

        Raises:
            RequestError: as `get`; with status 503 if it is not translated yet, 400 if it could not be translated.
        """
        document = self.get(owner, identifier, key)
        if not document.finished:
            raise RequestError(503, "the document is not translated yet", retry_after=1 + document.seconds_remaining())
        if document.state == "error":
            raise RequestError(400, f"the document could not be translated: {document.error}")
        return self._documents.pop(identifier)

    async def close(self) -> None:
        """Stop all translations and forget all documents."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._documents.clear()

    def _forget_old(self) -> None:
        oldest = time.monotonic() - self._limits.seconds
        for document in list(self._documents.values()):
            if document.finished and document.changed < oldest:
                del self._documents[document.identifier]

    async def _translate(self, document: Document, texts: Sequence[str], options: TextOptions) -> None:
        try:
            async with asyncio.timeout(self._limits.seconds), self._places:
                document.enter("translating")
                translations = await self._translations(document, texts, options)
                document.content = await asyncio.to_thread(document.format.rebuilt, document.content, translations)
                document.enter("done")
                return
        except RequestError as error:
            document.error = error.message
        except TimeoutError:
            document.error = "its translation took too long"
        except Exception as error:
            # The message of the exception may contain text of the document.
            _LOG.error("the translation of a document failed: %s", type(error).__name__)
            document.error = "internal error"
        document.content = b""
        document.enter("error")

    async def _translations(self, document: Document, texts: Sequence[str], options: TextOptions) -> list[str]:
        if options.source == AUTO:
            # Detected once, so that all parts are translated from the same language.
            beginning = "\n".join(texts)[:_DETECTION_CHARACTERS]
            await self._service.load()
            options = replace(options, source=self._service.source_of(beginning, options.target))
        translations: list[str] = []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            translations += await self._portion(texts[start : start + _TEXTS_AT_ONCE], options)
            document.progress = len(translations) / len(texts)
        return translations

    async def _portion(self, texts: Sequence[str], options: TextOptions) -> list[str]:
        """Translate some texts; a document waits while the server is full."""
        for attempt in range(_ATTEMPTS):
            try:
                return [translated.text for translated in await self._service.translate(texts, options)]
            except RequestError as error:
                if error.status not in (429, 503) or attempt == _ATTEMPTS - 1:
                    raise
                await asyncio.sleep(error.retry_after or 1.0)
        raise AssertionError
