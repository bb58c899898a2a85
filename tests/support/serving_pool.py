"""Pools of worker processes with small models."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

from dragoman.serving.lines import LineOptions
from dragoman.serving.workers.pool import Pool
from dragoman.serving.workers.processes import WorkerProcess

PAIR = ("en", "de")
# Takes about a second: a wide beam, and no end before the maximum length.
SLOW = LineOptions(beam=50)
SLOW_LINE = "turn the light in the kitchen off now please "


@asynccontextmanager
async def running_pool(directory: Path, workers: int = 2, threads: int = 1) -> AsyncIterator[Pool]:
    """Start a pool with one model, and close it at the end."""
    pool = Pool({PAIR: [directory]}, workers=workers, threads=threads)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()


def workers_of(pool: Pool) -> list[WorkerProcess]:
    """Return the workers of the current models."""
    assert pool._current is not None
    return pool._current.workers


def is_running(pid: int) -> bool:
    """Return True if a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> float:
    """Wait until a condition is true, and return the seconds that it took; fail if it takes longer than `seconds`."""
    began = monotonic()
    while not condition():
        assert monotonic() - began < seconds, "the condition did not become true"
        await asyncio.sleep(0.02)
    return monotonic() - began
