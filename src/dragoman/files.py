"""Atomic writing of files and directories, which also survives a crash or a loss of power; safe reading of files."""

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
from typing import Any, Literal

from dragoman.errors import SettingsError, StorageError, UserError, quoted, reason_of

_TEMPORARY = ".tmp-dragoman-"
# JSON files of a model or a run have a few kilobytes. Parsed JSON takes up to 20 times its size in memory.
LARGEST_JSON = 1 << 20


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a regular file for reading; never block on a pipe or a device.

    Args:
        path: the file.
        follow: also accept a symbolic link to a regular file.

    Raises:
        OSError: if the path is not a regular file, or it cannot be opened.
    """
    if not follow and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a symbolic link", str(path))
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


def read_regular(path: Path, max_bytes: int, *, follow: bool = True) -> bytes:
    """Return the content of a regular file.

    Args:
        path: the file.
        max_bytes: largest size that is accepted. Nothing is read from a larger file.
        follow: also accept a symbolic link to a regular file.

    Raises:
        OSError: if the path is not a regular file, the file cannot be read, or it is larger than `max_bytes`.
    """
    with open_regular(path, follow=follow) as file:
        size = os.fstat(file.fileno()).st_size
        if size > max_bytes:
            raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(path))
        # The size is passed because read(n) allocates n bytes in advance, so n must not be larger than the file.
        return file.read(size)


def read_verified(path: Path, max_bytes: int, digests: Mapping[str, str] | None, *, follow: bool = True) -> bytes:
    """Return the content of a regular file after verifying its digest.

    Args:
        path: the file.
        max_bytes: largest size that is accepted.
        digests: SHA-256 by file name, as listed in the directory's config.json; None if it has no such list.
        follow: also accept a symbolic link to a regular file.

    Raises:
        OSError: if the file cannot be read or is too large.
        ValueError: if the file is not listed, or its digest differs from the listed one.
    """
    data = read_regular(path, max_bytes, follow=follow)
    if digests is not None:
        if path.name not in digests:
            raise ValueError("config.json does not list it")
        if hashlib.sha256(data).hexdigest() != digests[path.name]:
            raise ValueError("its bytes are not those that config.json lists")
    return data


def read_json_object(path: Path, *, missing: str, error: type[UserError], advice: str = "") -> dict[str, Any]:
    """Return the object in a JSON file encoded in UTF-8.

    Args:
        path: the file, of at most `LARGEST_JSON` bytes.
        missing: message if the file does not exist.
        error: class of the errors raised.
        advice: what to do if the file cannot be used; appended to every message except `missing`.

    Raises:
        error: if the file does not exist, cannot be read, is not JSON, or does not contain an object. The message names
            the path.
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
    """Return the object in JSON text encoded in UTF-8.

    Raises:
        ValueError: if the text is not valid JSON, is not an object, is nested too deeply, or repeats a key.
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
    members: dict[str, Any] = {}
    for key, value in pairs:
        if key in members:
            raise ValueError(f"it has the key {quoted(key)} twice")
        members[key] = value
    return members


def write_atomically(path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically: a reader gets either the complete old content or the complete new content.

    Raises:
        OSError: if the file cannot be written; `path` is then unchanged.
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
    """Yield a new temporary directory to fill; it is renamed to `path` when the block ends without an error.

    `path` must not exist or must be an empty directory. All files in the new directory must be closed when the block
    ends. If the block raises, the temporary directory is deleted.
    """
    temporary = temporary_beside(path)
    try:
        temporary.mkdir()
        yield temporary
        for entry in temporary.rglob("*"):
            _sync(entry)
        _sync(temporary)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    sync_directory(path.parent)


@contextmanager
def replaced_directory(path: Path) -> Iterator[Path]:
    """Yield a new temporary directory to fill, which replaces `path` when the block ends without an error.

    See `atomic_directory`. If the process ends while the directories are exchanged, `path` may be missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    former = temporary_beside(path)
    with atomic_directory(path) as new:
        yield new
        if path.exists():
            path.rename(former)
    shutil.rmtree(former, ignore_errors=True)


def user_directory(kind: Literal["cache", "state"]) -> Path:
    """Return the directory for files that can be made again ("cache") or cannot ("state"), by the XDG specification.

    These are $XDG_CACHE_HOME/dragoman and $XDG_STATE_HOME/dragoman, by default below ~/.cache and ~/.local/state.

    Raises:
        SettingsError: if neither the variable nor a home directory is set.
    """
    variable = f"XDG_{kind.upper()}_HOME"
    base = Path(os.environ.get(variable, ""))
    # The specification requires relative paths to be ignored.
    if not base.is_absolute():
        try:
            base = Path.home() / (".cache" if kind == "cache" else ".local/state")
        except RuntimeError as error:
            raise SettingsError(f"no home directory for the {kind}; set {variable}") from error
    return base / "dragoman"


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Hold an exclusive lock on `directory` inside a `with` block; create the directory if necessary.

    The system releases the lock when the process ends, even if it is killed.

    Raises:
        StorageError: if another process holds the lock.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError(f"another process is writing to {directory}: wait until it ends, or stop it") from None
        yield


@contextmanager
def explain_full_disk(directory: Path) -> Iterator[None]:
    """Raise a StorageError that explains a full disk or quota, in place of an OSError that may not name a file."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"the disk of {directory} is full ({shutil.disk_usage(directory).free:,} bytes are free); files that were "
            "complete before are unchanged: free some space and run the same command again"
        ) from error


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until its content is on the disk."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Wait until the entries of this directory are on the disk; a rename alone does not guarantee that."""
    _sync(path)


def temporary_beside(path: Path) -> Path:
    """Return an unused random path in the same directory as `path`, and so on the same file system."""
    return path.with_name(_TEMPORARY + secrets.token_hex(8))


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files and directories of a killed process. Call it only while holding the directory's lock."""
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
