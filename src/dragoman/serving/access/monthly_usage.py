"""Characters that each key has used in a calendar month."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from dragoman.errors import StorageError
from dragoman.files import read_json_object, write_atomically


class MonthlyUsage:
    """Characters that each key has used in this calendar month (UTC), in a file between two runs of the server.

    Args:
        path: the JSON file; it is read if it exists.
        now: clock.

    Raises:
        StorageError: if the file is damaged.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._path = path
        self._now = now
        self._month = self._this_month()
        self._characters: dict[str, int] = {}
        self._saved = True
        if path.exists():
            advice = "remove the file to start from zero"
            stored = read_json_object(path, missing=f"{path} is missing", error=StorageError, advice=advice)
            characters = stored.get("characters")
            if not isinstance(characters, dict) or not all(type(n) is int and n >= 0 for n in characters.values()):
                raise StorageError(f"{path} is damaged: characters is not a table of numbers; {advice}")
            if stored.get("month") == self._month:
                self._characters = characters

    def characters(self, name: str) -> int:
        """Return the characters that a key has used in this month."""
        self._begin_month()
        return self._characters.get(name, 0)

    def add(self, name: str, characters: int) -> None:
        """Count characters of a key."""
        self._begin_month()
        self._characters[name] = self._characters.get(name, 0) + characters
        self._saved = False

    def save(self) -> None:
        """Write the file if a number has changed.

        Raises:
            OSError: if the file cannot be written.
        """
        if not self._saved:
            content = {"month": self._month, "characters": self._characters}
            write_atomically(self._path, json.dumps(content, ensure_ascii=False).encode())
            self._saved = True

    def _begin_month(self) -> None:
        if (month := self._this_month()) != self._month:
            self._month, self._characters = month, {}

    def _this_month(self) -> str:
        return f"{self._now():%Y-%m}"
