"""A generation of workers: those that hold the same models."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import Self

from dragoman.errors import ModelError, reason_of
from dragoman.serving.workers.attention_process import AttentionProcess
from dragoman.serving.workers.held_models import HoldingSettings
from dragoman.serving.workers.processes import NurseryProcess, WorkerProcess

# A worker that ends after fewer seconds has ended repeatedly: its replacement is delayed.
STEADY_SECONDS = 10.0
# Seconds of delay: the shortest, doubled each time, and the longest.
SHORTEST_DELAY, LONGEST_DELAY = 0.1, 10.0
IDLE_POLL_SECONDS = 0.02
_LOG = logging.getLogger(__name__)


class Generation:
    """Workers with the same models, each of which is replaced when it ends. Made by `start`.

    A nursery that ends is started again when a process has to be forked; it reads the models anew, so that the workers
    hold different models if the files were replaced and those cannot be loaded by a new generation.
    """

    def __init__(self, settings: HoldingSettings, nursery: NurseryProcess) -> None:
        self._settings, self._nursery = settings, nursery
        self._replacing_nursery: asyncio.Task[None] | None = None
        self._keepers: list[asyncio.Task[None]] = []
        self._workers: set[WorkerProcess] = set()
        self._changed = asyncio.Event()
        self._retired = False
        self.attention = AttentionProcess(self._fork_for_attention)
        """Computes the attention of the models."""
        self.restarts = 0
        """Number of workers that ended without being asked."""

    @classmethod
    async def start(cls, settings: HoldingSettings, workers: int) -> Self:
        """Load models and start workers; all are ready on return.

        Raises:
            ModelError: if a model is missing, damaged, or not finite, or a process ends.
            SettingsError: if a setting is not available for a model.
        """
        generation = cls(settings, await NurseryProcess.start(settings))
        try:
            for worker in await asyncio.gather(*(generation._nursery.fork("lines") for _ in range(workers))):
                generation._keepers.append(asyncio.create_task(generation._keep(worker)))
                generation._workers.add(worker)
        except BaseException as error:
            await generation.close()
            if isinstance(error, OSError):
                raise ModelError(f"a process of the server has ended: {error}") from error
            raise
        return generation

    @property
    def workers(self) -> list[WorkerProcess]:
        """The workers that can translate."""
        return [worker for worker in self._workers if worker.alive]

    @property
    def retired(self) -> bool:
        """True after `retire`."""
        return self._retired

    async def wait_for_worker(self) -> None:
        """Wait until a worker can translate, or the generation is retired."""
        while not self.workers and not self._retired:
            self._changed.clear()
            await self._changed.wait()

    def retire(self) -> None:
        """Replace no worker from now on."""
        self._retired = True
        self._changed.set()

    async def idle(self) -> None:
        """Wait until no line and no attention is in flight."""
        while self.attention.waiting or any(worker.in_flight for worker in self._workers):
            await asyncio.sleep(IDLE_POLL_SECONDS)

    async def close(self) -> None:
        """End the processes; lines in flight are lost."""
        self.retire()
        for keeper in self._keepers:
            keeper.cancel()
        replacing = [] if self._replacing_nursery is None else [self._replacing_nursery]
        for task in replacing:
            task.cancel()
        await asyncio.gather(*self._keepers, *replacing, return_exceptions=True)
        await asyncio.gather(self.attention.close(), *(worker.close(kill=True) for worker in self._workers))
        self._workers.clear()
        await self._nursery.close()

    async def _fork_for_attention(self) -> WorkerProcess:
        nursery = self._nursery
        try:
            return await nursery.fork("attention")
        except OSError as error:
            await self._replace(nursery, error)
        return await self._nursery.fork("attention")

    async def _keep(self, worker: WorkerProcess) -> None:
        """Replace a worker, and its replacements, when they end."""
        delay = 0.0
        while True:
            began = time.monotonic()
            await worker.wait()
            self._workers.discard(worker)
            await worker.close()
            if self._retired:
                return
            self.restarts += 1
            _LOG.warning("process %d, which translated, has ended: another takes its place", worker.pid)
            if time.monotonic() - began >= STEADY_SECONDS:
                delay = 0.0
            while True:
                await asyncio.sleep(delay)
                delay = min(LONGEST_DELAY, max(SHORTEST_DELAY, 2 * delay))
                nursery = self._nursery
                try:
                    worker = await nursery.fork("lines")
                    break
                except OSError as error:
                    # What prevents it is logged.
                    with suppress(Exception):
                        await self._replace(nursery, error)
                except Exception as error:
                    # Such as a model in torch that cannot be read now. Whatever it is, the next attempt may succeed.
                    _LOG.error("a process that has ended cannot be replaced now: %s", error)
            self._workers.add(worker)
            self._changed.set()

    async def _replace(self, nursery: NurseryProcess, error: OSError) -> None:
        """Start another nursery for one that has ended or does not answer.

        The caller may be cancelled before the models are loaded: the next one waits for the same nursery.

        Args:
            nursery: the nursery that did not fork a process.
            error: what happened.

        Raises:
            OSError: if its process cannot be ended.
            ModelError: as `start` does.
            SettingsError: as `start` does.
        """
        if self._replacing_nursery is None:
            if self._nursery is not nursery:
                return
            _LOG.warning("the process that loads the models is replaced: %s", reason_of(error))
            self._replacing_nursery = asyncio.create_task(self._start_nursery())
            self._replacing_nursery.add_done_callback(self._nursery_replaced)
        await asyncio.shield(self._replacing_nursery)

    async def _start_nursery(self) -> None:
        await self._nursery.close(kill=True)
        self._nursery = await NurseryProcess.start(self._settings)

    def _nursery_replaced(self, task: asyncio.Task[None]) -> None:
        self._replacing_nursery = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("the process that loads the models cannot be replaced now: %s", error)
