"""`ModelFiles`: notices that a model directory was replaced by a new training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dragoman.models.description import CONFIG_FILE, LISTED_FILES
from dragoman.models.weights import WEIGHTS_FILE

_FILES = (CONFIG_FILE, WEIGHTS_FILE, *LISTED_FILES)
# Inode, time of the last change in nanoseconds, and size of each file; None of a file that does not exist.
_State = tuple[tuple[int, int, int] | None, ...]


class ModelFiles:
    """The files of model directories, which are compared with those that were read last.

    Training replaces each file of a model directory in one step, but several files one after the other; a copy from
    another machine grows. Files that have changed are therefore whole when they do not change between two calls.

    Args:
        directories: the model directories.
    """

    def __init__(self, directories: Sequence[Path]) -> None:
        self._directories = tuple(directories)
        self._read = self._seen = self._state()

    def replaced(self) -> bool:
        """Return True if the files differ from those that were read, and have not changed since the last call.

        They then count as read, whether a model can be loaded from them or not.
        """
        former, self._seen = self._seen, self._state()
        if self._seen == self._read or self._seen != former:
            return False
        self._read = self._seen
        return True

    def read(self) -> None:
        """Note that the files are about to be read."""
        self._read = self._seen = self._state()

    def _state(self) -> _State:
        return tuple(_file_state(directory / name) for directory in self._directories for name in _FILES)


def _file_state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
