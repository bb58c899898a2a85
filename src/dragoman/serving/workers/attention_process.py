"""`AttentionProcess`: the server's side of the process that computes attention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from dragoman.errors import UserError
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.lines import Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers.processes import WorkerProcess

# Seconds for a sentence, with the wait for the sentences before it.
SECONDS = 20.0
# Sentences that are computed or wait; further ones are refused.
MOST_WAITING = 4
# Seconds without a sentence after which the process ends and its memory is free.
IDLE_SECONDS = 120.0


class AttentionProcess:
    """A process that computes attention, one sentence at a time.

    It is started by the first sentence, and ends when it has had none for `IDLE_SECONDS`, or when a sentence takes too
    long or is given up: a computation cannot be interrupted.

    Args:
        fork: starts a process; see `attention_worker`.
    """

    def __init__(self, fork: Callable[[], Awaitable[WorkerProcess]]) -> None:
        self._fork = fork
        self._process: WorkerProcess | None = None
        self._lock = asyncio.Lock()
        self._ending: asyncio.Task[None] | None = None
        self._closed = False
        self.waiting = 0
        """Number of sentences that are computed or wait."""

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        """See `AttentionSource`."""
        if self.waiting >= MOST_WAITING:
            raise RequestError(503, "too many requests for attention wait: try again later", retry_after=5)
        self.waiting += 1
        try:
            async with asyncio.timeout(SECONDS), self._lock:
                process = await self._running_process()
                try:
                    return await process.attention(pair, text, translation, form)
                except asyncio.CancelledError:
                    await self._end()
                    raise
                finally:
                    self._end_when_idle()
        except TimeoutError:
            raise RequestError(503, "the attention takes too long to compute: try again later", retry_after=5) from None
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """End the process; a sentence that it computes is lost."""
        self._closed = True
        if self._ending is not None:
            self._ending.cancel()
        await self._end()

    async def _running_process(self) -> WorkerProcess:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        if self._process is not None and not self._process.alive:
            await self._end()
        if self._process is None:
            try:
                process = await self._fork()
            except (OSError, UserError) as error:
                raise RequestError(503, "no process can compute attention: try again later", retry_after=5) from error
            if self._closed:
                await process.close(kill=True)
                raise RequestError(503, "the server is not running: try again later", retry_after=5)
            self._process = process
        return self._process

    def _end_when_idle(self) -> None:
        if not self._closed and self._process is not None:
            self._ending = asyncio.create_task(self._end_later())

    async def _end_later(self) -> None:
        await asyncio.sleep(IDLE_SECONDS)
        await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close(kill=True)
