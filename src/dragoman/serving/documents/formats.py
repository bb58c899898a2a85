"""Formats of documents: the texts in a document, and the document with their translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import Protocol

from dragoman.errors import quoted
from dragoman.serving.request_error import RequestError

_BOM = b"\xef\xbb\xbf"
_PORTION_CHARACTERS = 2000


class DocumentFormat(Protocol):
    """A format of documents."""

    @property
    def media_type(self) -> str:
        """Media type of documents."""
        ...

    def texts(self, content: bytes) -> list[str]:
        """Return the texts of a document that are translated.

        Raises:
            RequestError: with status 400 if the content is not of this format.
        """
        ...

    def rebuilt(self, content: bytes, translations: Sequence[str]) -> bytes:
        """Return the document with the translations, one for each of `texts(content)`, in place of its texts."""
        ...


class PlainText:
    """Plain text in UTF-8, with or without a byte order mark."""

    media_type = "text/plain; charset=utf-8"

    def texts(self, content: bytes) -> list[str]:
        """See `DocumentFormat`. A text is a number of whole lines."""
        try:
            text = content.removeprefix(_BOM).decode()
        except UnicodeDecodeError as error:
            raise RequestError(400, f"the document is not UTF-8 (at byte {error.start:,}): convert it") from error
        if "\0" in text:
            lines_before = text[: text.index("\0")].count("\n")
            raise RequestError(
                400, f"the document contains the character NUL (in line {lines_before + 1:,}): remove it"
            )
        texts: list[str] = []
        portion: list[str] = []
        size = 0
        for line in text.split("\n"):
            portion.append(line)
            size += len(line) + 1
            if size >= _PORTION_CHARACTERS:
                texts.append("\n".join(portion))
                portion, size = [], 0
        return [*texts, "\n".join(portion)] if portion else texts

    def rebuilt(self, content: bytes, translations: Sequence[str]) -> bytes:
        """See `DocumentFormat`."""
        mark = _BOM if content.startswith(_BOM) else b""
        return mark + "\n".join(translations).encode()


# By suffix of the file name, in lower case.
FORMATS: dict[str, DocumentFormat] = {".txt": PlainText()}


def format_of(name: str) -> DocumentFormat:
    """Return the format of a document by the suffix of its file name.

    Raises:
        RequestError: with status 400 if documents with this suffix cannot be translated.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix not in FORMATS:
        raise RequestError(
            400, f"documents of type {quoted(suffix)} cannot be translated; these can: {', '.join(sorted(FORMATS))}"
        )
    return FORMATS[suffix]
