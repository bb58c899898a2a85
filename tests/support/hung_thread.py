"""A thread of another process that hangs: it is stopped as by a debugger, and the other threads run on."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_SEIZE, _INTERRUPT, _DETACH = 0x4206, 0x4207, 17
# Wait for threads, too.
_ALL = 0x40000000


def busiest_thread(pid: int) -> int:
    """Return the thread that has used the processor most."""

    def ticks(thread: Path) -> int:
        fields = (thread / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    return int(max(Path(f"/proc/{pid}/task").iterdir(), key=ticks).name)


@contextmanager
def hung_thread(thread: int) -> Iterator[None]:
    """Stop a thread of a descendant of this process; it may be killed meanwhile."""
    if not _trace(_SEIZE, thread):
        pytest.skip("this system does not allow to stop a thread of another process")
    assert _trace(_INTERRUPT, thread)
    os.waitpid(thread, _ALL)
    try:
        yield
    finally:
        if not _trace(_DETACH, thread):
            # It was killed; until this call its process remains.
            with suppress(ChildProcessError):
                os.waitpid(thread, _ALL)


def _trace(request: int, thread: int) -> bool:
    trace = ctypes.CDLL(None).ptrace
    trace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    trace.restype = ctypes.c_long
    return bool(trace(request, thread, None, None) == 0)
