"""`FileStore`: files that are kept for a limited time, and that only those can read who know their names."""

from __future__ import annotations

import re
import secrets
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from dragoman.files import read_regular, write_atomically
from dragoman.serving.request_error import RequestError

_TOKEN = re.compile(r"[0-9a-f]{32}\.([\w-][\w.-]{0,99})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file of a `FileStore`.

    Attributes:
        name: its name: ASCII letters and digits, dots, hyphens and underscores.
        content: its bytes.
    """

    name: str
    content: bytes


class FileStore:
    """Files in a directory, each with an unguessable name, for a limited time; the oldest give way to new ones.

    The files of an earlier process are found again. All methods may be called from several threads.

    Args:
        directory: the directory, in which nothing else may be stored. It is created if necessary.
        seconds: how long a file is kept.
        max_files: largest number of files.
        max_bytes: largest size of all files together.
    """

    def __init__(
        self, directory: Path, *, seconds: float = 3600.0, max_files: int = 1000, max_bytes: int = 1 << 30
    ) -> None:
        self._seconds = seconds
        self._directory = directory
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._lock = Lock()
        self.sweep()

    def put(self, content: bytes, name: str) -> str:
        """Store a file and return its token: 32 random hexadecimal digits, a dot, and its name.

        Args:
            content: the file.
            name: any text. Characters that are not safe in a file name are replaced by underscores.

        Raises:
            RequestError: with status 413 if the file alone is larger than the store.
        """
        if len(content) > self._max_bytes:
            raise RequestError(413, f"the file has more than {self._max_bytes:,} bytes")
        token = f"{secrets.token_hex(16)}.{_safe(name)}"
        with self._lock:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._remove_old(files=self._max_files - 1, size=self._max_bytes - len(content))
            write_atomically(self._directory / token, content)
        return token

    def get(self, token: str) -> StoredFile:
        """Return a file.

        Args:
            token: as `put` returned it, or any other text.

        Raises:
            RequestError: with status 404 if there is no such file, or its time has passed.
        """
        self.sweep()
        # A token that `put` did not return never becomes a part of a path.
        if match := _TOKEN.fullmatch(token):
            try:
                content = read_regular(self._directory / token, self._max_bytes, follow=False)
            except FileNotFoundError:
                pass
            else:
                return StoredFile(name=match[1], content=content)
        raise RequestError(404, "there is no such file: it never existed, or it was deleted because it was old")

    def take(self, token: str) -> StoredFile:
        """Return a file, and delete it.

        Raises:
            RequestError: as `get`.
        """
        file = self.get(token)
        with self._lock:
            (self._directory / token).unlink(missing_ok=True)
        return file

    def sweep(self) -> None:
        """Delete the files whose time has passed."""
        with self._lock:
            self._remove_old(files=self._max_files, size=self._max_bytes)

    def _remove_old(self, *, files: int, size: int) -> None:
        """Delete the files whose time has passed, then the oldest until `files` files of `size` bytes are left."""
        if not self._directory.exists():
            return
        latest = time.time() - self._seconds
        # Includes incomplete files of a process that was killed; not a directory, such as that of a file system.
        states = [(path.lstat(), path) for path in self._directory.iterdir()]
        entries = [entry for entry in states if not stat.S_ISDIR(entry[0].st_mode)]
        entries.sort(key=lambda entry: entry[0].st_mtime_ns)
        left, total = len(entries), sum(status.st_size for status, _ in entries)
        for status, path in entries:
            if left > files or total > size or status.st_mtime < latest:
                path.unlink()
                left -= 1
                total -= status.st_size


def _safe(name: str) -> str:
    """Return a name without anything that has a meaning in a path or in a header; its end, with the suffix, is kept."""
    safe = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[-100:]
    return safe.lstrip(".") or "file"
