"""`Documents`: uploaded documents, which are translated in the background, and whose results can be fetched once."""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dragoman.serving.documents.file_store import FileStore
from dragoman.serving.documents.formats import DocumentFormat
from dragoman.serving.documents.translation import translate_document
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TextOptions, TranslationService

State = Literal["queued", "translating", "done", "error"]

# Finished documents whose state can be asked for; of more, the oldest are forgotten.
_FINISHED = 1000
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DocumentLimits:
    """Limits of documents.

    Attributes:
        documents: Documents that wait for their translation or are being translated.
        uploaded_bytes: Bytes of these documents.
        at_once: Documents that are translated at the same time.
        seconds: Seconds in which a document must be translated, and then seconds until it is forgotten.
    """

    documents: int = 100
    uploaded_bytes: int = 128 << 20
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
        content: the document as uploaded; empty when it is finished.
        token: name of its translation among the files, when it is done.
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
    token: str = ""
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

    def advance(self, progress: float) -> None:
        """Set the share of the texts that are translated."""
        self.progress = progress

    def enter(self, state: State) -> None:
        """Set the state."""
        self.state = state
        self.changed = time.monotonic()


class Documents:
    """Uploaded documents. Their translations are in a store of files; the rest is in memory, and ends with the process.

    All methods must be called from one event loop.

    Args:
        service: translates texts.
        files: stores translations.
        limits: the limits.
    """

    def __init__(self, service: TranslationService, files: FileStore, limits: DocumentLimits | None = None) -> None:
        self._service = service
        self._files = files
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
        receipt: Receipt | None = None,
    ) -> Document:
        """Begin the translation of a document in the background.

        Args:
            owner: who may see its status and fetch its result.
            name: its file name.
            content: the document.
            document_format: its format.
            texts: its texts, as the format returns them.
            options: how it is translated.
            receipt: its characters, which are charged when it is translated, and released if that fails.

        Raises:
            RequestError: with status 429 if too many documents wait.
        """
        self._forget_old()
        waiting = [document for document in self._documents.values() if not document.finished]
        size = sum(len(document.content) for document in waiting)
        if len(waiting) >= self._limits.documents or size + len(content) > self._limits.uploaded_bytes:
            raise RequestError(429, "too many documents wait for their translation: try again later", retry_after=60)
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
        task = asyncio.create_task(self._translate(document, texts, options, receipt or Receipt()))
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

    async def take(self, document: Document) -> bytes:
        """Return a document with its translation, and forget it.

        Raises:
            RequestError: with status 503 if it is not translated yet, 400 if it could not be translated, 404 if its
                translation was deleted.
        """
        if not document.finished:
            raise RequestError(503, "the document is not translated yet", retry_after=1 + document.seconds_remaining())
        if document.state == "error":
            raise RequestError(400, f"the document could not be translated: {document.error}")
        self._documents.pop(document.identifier, None)
        return (await asyncio.to_thread(self._files.take, document.token)).content

    async def close(self) -> None:
        """End all translations and forget all documents: nobody could fetch a result afterwards."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._documents.clear()

    def _forget_old(self) -> None:
        oldest = time.monotonic() - self._limits.seconds
        finished = [document for document in self._documents.values() if document.finished]
        for document in finished[:-_FINISHED] + [document for document in finished if document.changed < oldest]:
            self._documents.pop(document.identifier, None)

    async def _translate(
        self, document: Document, texts: Sequence[str], options: TextOptions, receipt: Receipt
    ) -> None:
        try:
            with receipt:
                await self._store_translation(document, texts, options)
        except RequestError as error:
            document.error = error.message
        except TimeoutError:
            document.error = "its translation took too long"
        except Exception as error:
            # The message of the exception may contain text of the document.
            _LOG.error("the translation of a document failed: %s", type(error).__name__)
            document.error = "internal error"
        document.content = b""
        document.enter("error" if document.error else "done")

    async def _store_translation(self, document: Document, texts: Sequence[str], options: TextOptions) -> None:
        async with asyncio.timeout(self._limits.seconds), self._places:
            document.enter("translating")
            content = await translate_document(
                self._service, document.format, document.content, texts, options, on_progress=document.advance
            )
            document.token = await asyncio.to_thread(self._files.put, content, document.name)
