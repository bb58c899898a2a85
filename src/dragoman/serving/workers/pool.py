"""`Pool`: worker processes that translate lines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dragoman.errors import SettingsError
from dragoman.native.engine_selection import PrecisionName
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.metrics import Metrics
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers.generation import Generation
from dragoman.serving.workers.held_models import HoldingSettings, ModelSource
from dragoman.threads import available_cpus
from dragoman.translation.results import Translation

# Seconds in which each worker must translate a word for the server to be ready.
READY_SECONDS = 2.0
# Seconds for which a line waits for a worker, if all have just ended.
WAIT_SECONDS = 5.0
# Seconds after which the workers of models that were replaced are ended, with lines in flight or not.
REPLACED_SECONDS = 120.0
_PROBE, _PROBE_OPTIONS = "1", LineOptions(beam=1)


@dataclass(frozen=True, kw_only=True)
class PoolStatistics:
    """Numbers of a pool, for metrics.

    Attributes:
        workers: workers that run and can translate.
        in_flight: lines in flight.
        characters: characters of the lines in flight.
        restarts: workers that ended without being asked and were replaced, or are to be.
        reloads: times that the models were read anew.
        failed_reloads: times that this failed, so that the former models stayed in use.
    """

    workers: int
    in_flight: int
    characters: int
    restarts: int
    reloads: int
    failed_reloads: int


def watch_pool(metrics: Metrics, statistics: Callable[[], PoolStatistics]) -> None:
    """Add the numbers of a pool to the metrics of a server."""
    metrics.watch("dragoman_workers", "Workers that can translate.", lambda: statistics().workers)
    metrics.watch("dragoman_lines_in_flight", "Lines in flight.", lambda: statistics().in_flight)
    metrics.watch(
        "dragoman_characters_in_flight", "Characters of the lines in flight.", lambda: statistics().characters
    )
    metrics.watch("dragoman_worker_restarts", "Workers that ended and were replaced.", lambda: statistics().restarts)
    metrics.watch("dragoman_model_reloads", "Times that the models were read anew.", lambda: statistics().reloads)
    metrics.watch(
        "dragoman_model_reload_failures",
        "Times that this failed, so that the former models stayed in use.",
        lambda: statistics().failed_reloads,
    )


class Pool:
    """Worker processes that translate lines; implements `LineTranslator` and `AttentionSource`.

    A process loads the models once, and the workers are forked from it: they share the memory of the weights of the
    native engine, and a worker that ends is replaced within a second. (Models that need torch are loaded by each
    worker.) A worker that has not answered for 4 seconds, or whose engine has not proceeded for as long, is killed and
    replaced.

    Args:
        models: the model directory of each language pair, or several: an ensemble.
        workers: number of worker processes.
        threads: threads of the engine in each worker. Defaults to an equal share of the cores.
        precision: precision of the native engine, see `Translator.load`.
        shortlist: see `Translator.load`.

    Raises:
        SettingsError: if a number is out of range, or there is no model.
    """

    def __init__(
        self,
        models: Mapping[Pair, Sequence[Path]],
        *,
        workers: int = 1,
        threads: int | None = None,
        precision: PrecisionName = "auto",
        shortlist: bool = False,
    ) -> None:
        if workers < 1:
            raise SettingsError(f"workers must be at least 1, got {workers}")
        self._settings = HoldingSettings(
            models=tuple(ModelSource(pair=pair, directories=tuple(paths)) for pair, paths in models.items()),
            threads=max(1, available_cpus() // workers) if threads is None else threads,
            precision=precision,
            shortlist=shortlist,
        )
        self._count = workers
        self._current: Generation | None = None
        self._replaced: dict[Generation, asyncio.Task[None]] = {}
        self._reloading = asyncio.Lock()
        self._restarts_of_replaced = self._reloads = self._failed_reloads = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """See `LineTranslator`."""
        return tuple(source.pair for source in self._settings.models)

    @property
    def directories(self) -> tuple[Path, ...]:
        """The model directories."""
        return tuple(directory for source in self._settings.models for directory in source.directories)

    async def start(self) -> None:
        """Load the models, and start the workers.

        Raises:
            ModelError: if a model is missing, damaged, or not finite.
            SettingsError: if a setting is not available for a model.
        """
        assert self._current is None
        self._current = await Generation.start(self._settings, self._count)

    async def reload(self) -> None:
        """Load the models anew, and move to them without losing a line.

        New lines go to workers with the new models; the old workers end when their last line is answered. Until then,
        both models are in memory.

        Raises:
            ModelError: as `start` does. The old models stay in use.
            SettingsError: as `start` does. The old models stay in use.
        """
        async with self._reloading:
            try:
                new = await Generation.start(self._settings, self._count)
            except Exception:
                self._failed_reloads += 1
                raise
            old, self._current = self._current, new
            if old is None:
                # The pool was closed in the meantime.
                self._current = None
                await new.close()
                return
            self._reloads += 1
            self._restarts_of_replaced += old.restarts
            old.retire()
            self._replaced[old] = asyncio.create_task(self._end(old))

    async def _end(self, old: Generation) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(REPLACED_SECONDS):
                    await old.idle()
        finally:
            await old.close()
            self._replaced.pop(old, None)

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """See `LineTranslator`; the worker with the fewest characters in flight translates the line."""
        if pair not in self.pairs:
            raise RequestError(400, f"{pair[0]} to {pair[1]} is not supported")
        generation = await self._generation_with_worker()
        # Nothing has run since the worker was seen: it is still there.
        worker = min(generation.workers, key=lambda worker: worker.characters)
        return await worker.translate(pair, line, options)

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        """See `AttentionSource`; a process of its own computes it, see `AttentionProcess`."""
        generation = await self._generation_with_worker()
        return await generation.attention.attention(pair, text, translation, form)

    async def _generation_with_worker(self) -> Generation:
        """Return the current generation when it has a worker.

        Raises:
            RequestError: with status 503, if none is there in time, or the pool is closed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while (generation := self._current) is not None:
                    if generation.workers:
                        return generation
                    await generation.wait_for_worker()
        if self._current is None:
            raise RequestError(503, "the server is not running: try again later", retry_after=5)
        raise RequestError(503, "no process can translate now: try again later", retry_after=5)

    async def ready(self) -> bool:
        """Return True if every worker translates a word with every model within 2 seconds."""
        generation = self._current
        if generation is None or len(generation.workers) < self._count:
            return False
        try:
            async with asyncio.timeout(READY_SECONDS):
                await asyncio.gather(
                    *(
                        worker.translate(pair, _PROBE, _PROBE_OPTIONS)
                        for worker in generation.workers
                        for pair in self.pairs
                    )
                )
        except (TimeoutError, RequestError):
            return False
        return True

    def statistics(self) -> PoolStatistics:
        """Return numbers for metrics."""
        workers = [worker for generation in self._generations() for worker in generation.workers]
        return PoolStatistics(
            workers=len(self._current.workers) if self._current else 0,
            in_flight=sum(worker.in_flight for worker in workers),
            characters=sum(worker.characters for worker in workers),
            restarts=self._restarts_of_replaced + (self._current.restarts if self._current else 0),
            reloads=self._reloads,
            failed_reloads=self._failed_reloads,
        )

    async def close(self, grace: float = 0.0) -> None:
        """Refuse new lines, wait for those in flight for at most `grace` seconds, and end the processes.

        Lines that are still in flight then fail with status 503.
        """
        generations = list(self._generations())
        self._current = None
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await asyncio.gather(*(generation.idle() for generation in generations))
        finally:
            replaced = list(self._replaced.values())
            for task in replaced:
                task.cancel()
            await asyncio.gather(*replaced, return_exceptions=True)
            # Again where a task had not begun.
            await asyncio.gather(*(generation.close() for generation in generations))

    def _generations(self) -> Iterable[Generation]:
        return [*([self._current] if self._current else []), *self._replaced]
