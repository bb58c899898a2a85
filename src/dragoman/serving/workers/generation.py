"""A generation of workers: those that hold the same models."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Self

from dragoman.errors import ModelError, UserError
from dragoman.serving.workers.attention_process import AttentionProcess
from dragoman.serving.workers.held_models import HoldingSettings
from dragoman.serving.workers.processes import NurseryProcess, WorkerProcess

# A worker that ends after fewer seconds has ended repeatedly: its replacement is delayed.
STEADY_SECONDS = 10.0
# Seconds of delay: the shortest, doubled each time, and the longest.
SHORTEST_DELAY, LONGEST_DELAY = 0.1, 10.0
IDLE_POLL_SECONDS = 0.02


class Generation:
    """Workers with the same models, each of which is replaced when it ends. Made by `start`.

    A nursery that ends is started again when a worker has to be replaced; it reads the models anew.
    """

    def __init__(self, settings: HoldingSettings, nursery: NurseryProcess) -> None:
        self._settings, self._nursery = settings, nursery
        self._replacing_nursery = asyncio.Lock()
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
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await asyncio.gather(self.attention.close(), *(worker.close(kill=True) for worker in self._workers))
        self._workers.clear()
        await self._nursery.close()

    async def _fork_for_attention(self) -> WorkerProcess:
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
            if time.monotonic() - began >= STEADY_SECONDS:
                delay = 0.0
            while True:
                await asyncio.sleep(delay)
                delay = min(LONGEST_DELAY, max(SHORTEST_DELAY, 2 * delay))
                nursery = self._nursery
                try:
                    worker = await nursery.fork("lines")
                    break
                except OSError:
                    with suppress(UserError):
                        await self._replace(nursery)
                except UserError:
                    # A model in torch that cannot be read now.
                    pass
            self._workers.add(worker)
            self._changed.set()

    async def _replace(self, nursery: NurseryProcess) -> None:
        """Start another nursery for one that has ended or does not answer.

        Raises:
            ModelError: as `start` does.
            SettingsError: as `start` does.
        """
        async with self._replacing_nursery:
            if self._nursery is nursery:
                await nursery.close(kill=True)
                self._nursery = await NurseryProcess.start(self._settings)
