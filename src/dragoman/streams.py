"""Standard input, output and error of the command line, including closed streams and full disks.

This module is imported before any large module: while a standard stream is closed, the next file that is opened would
get its descriptor.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer

# Modes in which /dev/null replaces a closed descriptor 0, 1 or 2. Reading a closed standard input and writing to a
# closed standard output remain errors; messages on a closed standard error are discarded.
_REPLACEMENT_MODES = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)


class OutputError(OSError):
    """Standard output cannot be written: its disk is full, it is closed, or its reader has ended (EPIPE)."""

    def __str__(self) -> str:
        """Return one line for the user."""
        return f"standard output cannot be written: {'it is closed' if self.errno == errno.EBADF else self.strerror}"


class _Output(io.FileIO):
    """Standard output; its errors are raised as OutputError to distinguish them from errors of other files."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


class _Messages(io.FileIO):
    """Standard error; a message that cannot be written is discarded without an error."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_standard_streams() -> None:
    """Open `sys.stdin`, `sys.stdout` and `sys.stderr` on the descriptors 0, 1 and 2, even if these are closed.

    Afterwards none of the three descriptors is unused. Characters that the encoding cannot represent are escaped.
    """
    for descriptor, mode in enumerate(_REPLACEMENT_MODES):
        try:
            os.fstat(descriptor)
        except OSError:
            # open() returns the lowest unused descriptor, which is this one.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def discard_output() -> None:
    """Discard the buffered data of standard output, and everything written to it later."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def flush_or_discard_output() -> None:
    """Flush standard output if it is a regular file, which never blocks; otherwise discard its buffered data."""
    try:
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            sys.stdout.flush()
            return
    except OSError:
        pass
    discard_output()


def _text(raw: io.FileIO, former: TextIO | None) -> TextIO:
    """Return a text stream on `raw` with the encoding and buffering of the former stream, if there was one."""
    if not isinstance(former, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(
        # With python -u, the stream has no buffer.
        io.BufferedWriter(raw) if not former.write_through else raw,
        encoding=former.encoding,
        errors="backslashreplace",
        line_buffering=former.line_buffering,
        write_through=former.write_through,
    )
