"""Errors of files that verbs write."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import StorageError


@contextmanager
def written_to(path: Path) -> Iterator[None]:
    """Turn an OSError into a StorageError that names `path`: the file that failed has a temporary name."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
