"""`Suggestions`: the file in which suggested translations are collected, one JSON object on each line."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from dragoman.errors import reason_of
from dragoman.serving.request_error import RequestError

# Seconds after which a client may send a suggestion again that could not be stored.
RETRY_SECONDS = 60
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A better translation that a user suggested.

    Attributes:
        q: the text.
        s: its suggested translation.
        source: code of the source language, or "auto".
        target: code of the target language.
    """

    q: str
    s: str
    source: str
    target: str


class Suggestions:
    """File of suggested translations, to which several processes may append.

    Args:
        path: the file, which is created if necessary.
        max_bytes: largest size of the file.
    """

    def __init__(self, path: Path, *, max_bytes: int = 64 << 20) -> None:
        self._path = path
        self._max_bytes = max_bytes

    def add(self, suggestion: Suggestion) -> None:
        """Append a suggestion as one line; the file contains all of it or, after an error, nothing of it.

        Raises:
            RequestError: with status 503 if the file would be too large, or cannot be written.
        """
        try:
            self._append(suggestion)
        except OSError as error:
            # Such as a full disk.
            _LOG.error("a suggestion cannot be stored: %s: %s", self._path, reason_of(error))
            message = "the suggestion cannot be stored now: try again later"
            raise RequestError(503, message, retry_after=RETRY_SECONDS) from error

    def _append(self, suggestion: Suggestion) -> None:
        line = json.dumps(asdict(suggestion), ensure_ascii=False).encode() + b"\n"
        with self._path.open("ab", buffering=0) as file:
            # Released when the file is closed.
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file.fileno()).st_size
            if size + len(line) > self._max_bytes:
                raise RequestError(503, "the file of suggestions is full: report this to the operator of the server")
            try:
                written = file.write(line)
                if written != len(line):
                    raise OSError(f"{written} of {len(line)} bytes were written to {self._path}")
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise
