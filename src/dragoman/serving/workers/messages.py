"""What the server, its workers and their nursery send each other, as JSON objects; see `frames`.

| from | to | message |
|---|---|---|
| server | nursery | {"load": `HoldingSettings`}, answered {"loaded": true} or {"error": `Failure`} |
| server | nursery | {"fork": "lines" or "attention"} with one end of a connection, not answered |
| worker | server | {"started": process id}, its first message |
| worker | server | {"ready": true} when it can translate, or {"error": `Failure`} before it ends |
| server | worker | {"translate": `LineRequest`} |
| server | worker | {"cancel": number of a request}, answered {"cancelled": number} unless the request was answered |
| server | worker | {"ping": number}, answered {"pong": number, "proceeds": false if a search hangs} |
| worker | server | {"id": number of a request, "translation": `Translation`} |
| worker | server | {"id": number of a request, "refused": `Refusal`} |
| server | worker for attention | {"attention": `AttentionRequest`} |
| worker for attention | server | {"id": number of a request, "attention": JSON or HTML} |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self, TypeVar

from dragoman.errors import CorpusError, ModelError, SettingsError, StorageError, UserError
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.lines import LineOptions
from dragoman.serving.workers.frames import FrameError
from dragoman.settings import from_mapping

_ERRORS = {error.__name__: error for error in (CorpusError, ModelError, SettingsError, StorageError)}
Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class LineRequest:
    """A request to translate a line.

    Attributes:
        id: number of the request, which its answer repeats.
        pair: source language and target language.
        line: text without line feeds.
        options: how it is translated.
    """

    id: int
    pair: tuple[str, str]
    line: str
    options: LineOptions


@dataclass(frozen=True, kw_only=True)
class AttentionRequest:
    """A request for the attention of a sentence and its translation.

    Attributes:
        id: number of the request, which its answer repeats.
        pair: source language and target language.
        text: the sentence.
        translation: its translation.
        form: what the answer is.
    """

    id: int
    pair: tuple[str, str]
    text: str
    translation: str
    form: AttentionForm


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a request was not answered; see `RequestError`."""

    status: int
    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why models cannot be loaded.

    Attributes:
        kind: name of the subclass of `UserError`.
        message: what was wrong, and what to do.
    """

    kind: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """Return the failure that an error describes."""
        kind = type(error).__name__
        return cls(kind=kind if kind in _ERRORS else ModelError.__name__, message=str(error))

    def error(self) -> UserError:
        """Return the error."""
        return _ERRORS.get(self.kind, ModelError)(self.message)


def read_part(cls: type[Part], value: object) -> Part:
    """Return a dataclass from its JSON in a message.

    Raises:
        FrameError: if the value does not have the fields of the class.
    """
    if not isinstance(value, dict):
        raise FrameError(f"a message has no {cls.__name__}")
    try:
        return from_mapping(cls, value, "a message", cls.__name__)  # type: ignore[type-var]
    except ValueError as error:
        raise FrameError(str(error)) from error


def read_number(value: object) -> int:
    """Return a whole number of a message.

    Raises:
        FrameError: if the value is not a whole number.
    """
    if type(value) is not int:
        raise FrameError("a message has no number")
    return value
