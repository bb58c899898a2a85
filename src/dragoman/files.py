"""Files and directories that are there whole or not at all, even after a crash or a loss of power; reading JSON."""

import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

from dragoman.errors import StorageError, UserError, quoted, reason_of

_TEMPORARY = ".tmp-dragoman-"
# A JSON file has a few kilobytes; what is read of one takes up to 20 times its size in memory.
LARGEST_JSON = 1 << 20


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading; a pipe or a device is neither waited for nor read.

    Args:
        path: the file.
        follow: take a link to a regular file too.

    Raises OSError when it is something else, or cannot be read.
    """
    if not follow and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link", str(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, "it is a directory", str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, largest: int, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file; see `open_regular`.

    Raises OSError also when it has more than `largest` bytes; none are read then.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise OSError(errno.EFBIG, f"it has more than {largest:,} bytes", str(path))
        # Memory for all that is asked for is taken in advance.
        return file.read(size)


def read_listed(path: Path, largest: int, digests: Mapping[str, str] | None, *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file, after a comparison with its digest.

    Args:
        path: the file.
        largest: the most bytes that it may have.
        digests: SHA-256 by name, from the directory's list of its files; None: it has no such list.
        follow: take a link to a regular file too.

    Raises OSError when it cannot be read, ValueError when it is not the one that is listed.
    """
    data = read_regular(path, largest, follow=follow)
    if digests is not None:
        if path.name not in digests:
            raise ValueError("config.json does not list it")
        if hashlib.sha256(data).hexdigest() != digests[path.name]:
            raise ValueError("its bytes are not those that config.json lists")
    return data


def read_json_object(path: Path, *, missing: str, error: type[UserError], advice: str = "") -> dict[str, Any]:
    """Return the object that a JSON file in UTF-8 holds.

    Args:
        path: the file, of at most `LARGEST_JSON` bytes.
        missing: the message when there is no such file.
        error: the class to raise.
        advice: what to do when the file cannot be used; it ends each message but `missing`.

    Raises `error`, naming the path, when the file is missing, cannot be read, is not JSON, or holds something else.
    """
    advice = f"; {advice}" if advice else ""
    try:
        return parse_json_object(read_regular(path, LARGEST_JSON))
    except FileNotFoundError:
        raise error(missing) from None
    except OSError as reason:
        raise error(f"{path} cannot be read: {reason_of(reason)}{advice}") from reason
    except ValueError as reason:
        raise error(f"{path} is damaged: {reason}{advice}") from reason


def parse_json_object(data: bytes) -> dict[str, Any]:
    """Return the object that JSON in UTF-8 holds.

    Raises ValueError when it is not JSON or something else, is nested deeply, or has a key twice.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_without_repeats)
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start:,})") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"it has the key {quoted(key)} twice")
        found[key] = value
    return found


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path`: whoever opens `path`, at any time, finds all the old bytes or all the new.

    Raises OSError when it cannot be written; `path` is then as it was.
    """
    temporary = temporary_beside(path)
    try:
        write_synced(temporary, data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_directory(path.parent)


@contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Give a new directory to fill, which becomes `path` when the block ends without an error.

    `path` must not exist, or be an empty directory. Files in the new one must be closed by then.
    """
    temporary = temporary_beside(path)
    try:
        temporary.mkdir()
        yield temporary
        for inside in temporary.rglob("*"):
            _sync(inside)
        _sync(temporary)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_directory(path.parent)


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Be the only process that writes in `directory`; the lock goes when the process does, however it ends.

    Raises StorageError when another process holds it.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(f"another process is writing in {directory}: wait for it, or stop it") from None
        yield


@contextmanager
def full_disk_explained(directory: Path) -> Iterator[None]:
    """Let a full disk (or quota) be a StorageError that says so: the system's own error may not even name a file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"the disk of {directory} is full ({shutil.disk_usage(directory).free:,} bytes are free): what was whole "
            "before still is; make room and give the same command again"
        ) from error


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until its bytes are on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the names in this directory are on the disk, as a rename alone does not."""
    _sync(path)


def temporary_beside(path: Path) -> Path:
    """A name that is free, on the same file system as `path`."""
    return path.with_name(_TEMPORARY + secrets.token_hex(8))


def remove_leftovers(directory: Path) -> None:
    """Remove what a killed process left half-written here. Only for the directory's one writer to call."""
    for path in directory.glob(_TEMPORARY + "*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
