"""Standard input, output and error of the command line, whatever they are connected to.

Imported before anything heavy: nothing may be opened in the place of a standard stream that is closed.
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

# A closed standard input cannot be read, a closed standard output not be written; what is said on a closed standard
# error is lost.
_IN_PLACE_OF_CLOSED = (os.O_WRONLY, os.O_RDONLY, os.O_WRONLY)


class OutputError(OSError):
    """Standard output takes no more: its disk is full, it is closed, or nobody reads it any longer (EPIPE)."""

    def __str__(self) -> str:
        """Return one line for the user."""
        return f"standard output cannot be written: {'it is closed' if self.errno == errno.EBADF else self.strerror}"


class _Output(io.FileIO):
    """Standard output, whose errors are told from those of other files."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise OutputError(error.errno, error.strerror) from None


class _Messages(io.FileIO):
    """Standard error: a message that cannot be written is lost, and the work goes on."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def open_standard_streams() -> None:
    """Make `sys.stdin`, `sys.stdout` and `sys.stderr` ready for whatever is read and printed.

    None of the three descriptors is free afterwards. Characters that the encoding lacks are escaped.
    """
    for descriptor, mode in enumerate(_IN_PLACE_OF_CLOSED):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest number that is free: this one.
            os.open(os.devnull, mode)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = _text(_Output(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Messages(2, "w", closefd=False), sys.stderr)


def drop_output() -> None:
    """Drop what waits to be written to standard output, and whatever is written to it later."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def break_output_off() -> None:
    """Drop what waits to be written, unless standard output is a file, which takes it without waiting for a reader."""
    try:
        if stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode):
            sys.stdout.flush()
            return
    except OSError:
        pass
    drop_output()


def _text(raw: io.FileIO, former: TextIO | None) -> TextIO:
    """Return a text stream on `raw` with the encoding and buffering that Python chose, if it had one."""
    if not isinstance(former, io.TextIOWrapper):
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace")
    return io.TextIOWrapper(
        # python -u writes without a buffer.
        io.BufferedWriter(raw) if not former.write_through else raw,
        encoding=former.encoding,
        errors="backslashreplace",
        line_buffering=former.line_buffering,
        write_through=former.write_through,
    )
