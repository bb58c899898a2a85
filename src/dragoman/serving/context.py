"""What the interfaces of a server share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from starlette.requests import Request

from dragoman.serving.attention_requests import AttentionSource
from dragoman.serving.documents.documents import Documents
from dragoman.serving.documents.file_store import FileStore
from dragoman.serving.limits import Limits
from dragoman.serving.receipts import Receipt
from dragoman.serving.texts.service import TranslationService


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a key has used.

    Attributes:
        characters: characters in this month.
        quota: characters that it may use in a month; None for no limit.
    """

    characters: int
    quota: int | None


class Access(Protocol):
    """Decides who may use the server, and how much."""

    @property
    def keys_required(self) -> bool:
        """True if every request needs a key."""
        ...

    def admit(self, request: Request, key: str | None, characters: int) -> Receipt:
        """Count a request of some characters for its key, or for its address if keys are not required.

        The characters of the month are reserved, and are charged by the receipt.

        Raises:
            RequestError: with status 403 for a missing or unknown key, 413 for more characters than a request may
                have, 429 for more requests or characters than the key or the address may use in a minute, 456 for
                more characters than the key may use in a month.
        """
        ...

    def admit_document(self, request: Request, key: str | None, characters: int) -> Receipt:
        """Count a request as `admit` does; a document may have more characters than the texts of a request.

        A document with more characters than may be used in a minute is admitted as one that has as many.

        Raises:
            RequestError: as `admit`.
        """
        ...

    def usage(self, key: str | None) -> Usage | None:
        """Return what a key has used; None if it is unknown, or keys are not required."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServerContext:
    """What the interfaces of a server share.

    Attributes:
        service: translates texts.
        attention: computes attention.
        access: decides who may use the server.
        limits: the limits.
        data: directory for glossaries.
        files: translated files.
        documents: documents that are translated in the background.
        suggestions: file to which suggested translations are appended; None to accept none.
    """

    service: TranslationService
    attention: AttentionSource
    access: Access
    limits: Limits
    data: Path
    files: FileStore
    documents: Documents
    suggestions: Path | None = None
