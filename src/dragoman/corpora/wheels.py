"""The files in a wheel, read without installing it and without trusting it."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import CorpusError, UserError

# Several times what the largest file that we read needs: a guard against files made to exhaust memory.
_MAX_MEMBER_BYTES = 16_000_000


@contextmanager
def open_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive; damage that shows while it is open is raised as CorpusError."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except UserError:
        raise
    # ValueError: not what the file should be (JSON, UTF-8). RuntimeError: encrypted, nested too deep.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise CorpusError(f"{path}: a damaged wheel ({error}); fetch it anew") from error


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of one file; ValueError when it is suspiciously large or compressed in no usual way."""
    member = archive.getinfo(name)
    if member.file_size > _MAX_MEMBER_BYTES:
        raise ValueError(f"{name} is too large")
    # Other methods may be missing from this Python, and fail in ways of their own.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by a method that wheels do not use")
    return archive.read(name)
