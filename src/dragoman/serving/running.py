"""Running of a server: its socket, models, signals, and end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import uvicorn
from starlette.routing import BaseRoute

from dragoman.errors import SettingsError, StorageError, quoted, reason_of
from dragoman.files import exclusive
from dragoman.interrupts import ENDING
from dragoman.serving.access.addresses import addresses_of_proxies
from dragoman.serving.access.bounded_protocol import bounded_protocol
from dragoman.serving.access.keyed_access import KeyedAccess
from dragoman.serving.access.monthly_usage import MonthlyUsage
from dragoman.serving.app import ServerApp, build_app
from dragoman.serving.attention_requests import AttentionSource
from dragoman.serving.context import ServerContext
from dragoman.serving.documents.documents import Documents
from dragoman.serving.documents.file_store import FileStore
from dragoman.serving.limits import Limits
from dragoman.serving.lines import LineTranslator, Pair
from dragoman.serving.listening import bound_socket, listen, url_of
from dragoman.serving.metrics import Metrics
from dragoman.serving.reloading import Reloading
from dragoman.serving.texts.service import TranslationService
from dragoman.serving.workers.pool import PoolStatistics, watch_pool

# Seconds for which requests in flight may finish after SIGTERM.
GRACE_SECONDS = 30.0
# Seconds between two writes of the monthly usage of keys, and between two deletions of old files.
STORING_SECONDS = 60.0
# Such as https://example.org or chrome-extension://abc: browsers compare it as text.
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://[^\s/?#@A-Z]+")
_LOG = logging.getLogger(__name__)


class Models(LineTranslator, AttentionSource, Protocol):
    """What translates lines, with a beginning and an end."""

    @property
    def directories(self) -> tuple[Path, ...]:
        """The model directories, which are read anew when they are replaced."""
        ...

    def statistics(self) -> PoolStatistics:
        """Return numbers for metrics."""
        ...

    async def start(self) -> None:
        """Load the models."""
        ...

    async def close(self) -> None:
        """Release the models."""
        ...

    async def ready(self) -> bool:
        """Return whether every model can translate."""
        ...

    async def reload(self) -> None:
        """Load the models anew without losing a line; if that fails, the former ones stay in use."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Settings of a server.

    Attributes:
        host: Name or address to listen on.
        port: TCP port; 0 selects a free one.
        limits: The limits.
        data: Directory for glossaries, documents and the usage of keys; it is made if it does not exist.
        keys: File of API keys; None to accept requests without a key.
        suggestions: File in which suggested translations are collected; None to accept none.
        public_hosts: Names of this server beside localhost, for the Host header.
        origins: Origins of pages of other servers that may read the responses (CORS).
        proxies: Addresses of proxies, or their networks, whose X-Forwarded-For and X-Forwarded-Proto are trusted.
    """

    host: str
    port: int
    limits: Limits
    data: Path
    keys: Path | None = None
    suggestions: Path | None = None
    public_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        addresses_of_proxies(self.proxies)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise SettingsError(
                    f"--allow-origin {quoted(origin)} is not an origin: use one such as https://example.org or "
                    "http://localhost:8080, in small letters and without a path"
                )


def run_server(
    settings: ServerSettings,
    models: Models,
    routes: Callable[[ServerContext], Sequence[BaseRoute]],
    *,
    on_ready: Callable[[str, Sequence[Pair]], None],
) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are then answered within 30 seconds. For the main thread.

    Documents that are still translated after the last request are given up: nobody could fetch their results.

    SIGHUP reads the keys and the models anew without losing a request. Models are also read anew when the files of a
    model directory were replaced; until they can be loaded, the former models stay in use.

    Args:
        settings: the settings.
        models: translates lines; it is started and closed here.
        routes: returns the routes of the interfaces.
        on_ready: called with the URL and the language pairs when requests are accepted.

    Raises:
        SettingsError: if the address cannot be used, or the file of keys is not valid.
        StorageError: if the directory for data, or the file for suggestions, cannot be used, or another server uses
            that directory.
        ModelError: if a model cannot be loaded.
    """
    with bound_socket(settings.host, settings.port) as listener, _usable_data(settings.data):
        _run_server(settings, models, routes, on_ready, listener)


@contextlib.contextmanager
def _usable_data(data: Path) -> Iterator[None]:
    """Create the directory for data if necessary, and keep other servers from using it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(exclusive(data))
        except StorageError:
            raise StorageError(f"another server uses {data}: stop it, or use another directory (--data)") from None
        except OSError as error:
            raise StorageError(f"{data}: cannot be used for data: {reason_of(error)}") from error
        yield


def _run_server(
    settings: ServerSettings,
    models: Models,
    routes: Callable[[ServerContext], Sequence[BaseRoute]],
    on_ready: Callable[[str, Sequence[Pair]], None],
    listener: socket.socket,
) -> None:
    metrics = Metrics()
    watch_pool(metrics, models.statistics)
    if settings.suggestions is not None:
        try:
            settings.suggestions.open("ab").close()
        except OSError as error:
            raise StorageError(f"{settings.suggestions}: cannot be used: {reason_of(error)}") from error
    usage = MonthlyUsage(settings.data / "usage.json")
    access = KeyedAccess(settings.limits, usage, keys=settings.keys, on_admitted=metrics.count_characters)
    service = TranslationService(models)
    stored = settings.data / "translated-files"
    try:
        files = FileStore(stored)
    except OSError as error:
        raise StorageError(f"{stored}: cannot be used for translated files: {reason_of(error)}") from error
    context = ServerContext(
        service=service,
        attention=models,
        access=access,
        limits=settings.limits,
        data=settings.data,
        files=files,
        documents=Documents(service, files),
        suggestions=settings.suggestions,
    )
    loopback = listener.getsockname()[0].startswith("127.") or listener.getsockname()[0] == "::1"
    app = build_app(
        routes(context),
        limits=settings.limits,
        metrics=metrics,
        ready=models.ready,
        hosts=settings.public_hosts if loopback or settings.public_hosts else None,
        origins=settings.origins,
    )
    config = uvicorn.Config(
        app,
        http=bounded_protocol(settings.limits, behind_proxy=bool(settings.proxies)),
        ws="none",
        lifespan="off",
        # Its messages repeat what hostile clients sent; `Measured` logs the errors of the application.
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=addresses_of_proxies(settings.proxies),
        # Longer than the interval at which clients ask for the state of a document (5 s).
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(GRACE_SECONDS) + 5,
    )
    reloading = Reloading(
        models.directories, access.reload, models.reload, partial(metrics.count_failure, "reading models")
    )
    server = _Server(
        *(config, app, context, models, usage, reloading, metrics), lambda: on_ready(url_of(listener), models.pairs)
    )
    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(server.run_until_stopped(listener))


class _Server(uvicorn.Server):
    """uvicorn's server with signals of its own."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: ServerApp,
        context: ServerContext,
        models: Models,
        usage: MonthlyUsage,
        reloading: Reloading,
        metrics: Metrics,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._app = app
        self._context = context
        self._models = models
        self._usage = usage
        self._reloading = reloading
        self._metrics = metrics
        self._on_ready = on_ready
        self._starting: asyncio.Task[None] | None = None

    async def run_until_stopped(self, listener: socket.socket) -> None:
        """Load the models, serve, end the translations of documents, and release the models."""
        with self._signals():
            try:
                self._starting = asyncio.ensure_future(self._start())
                await asyncio.wait((self._starting,))
                if self._starting.cancelled():
                    return
                self._starting.result()
                listen(listener)
                regular = [asyncio.create_task(work) for work in (self._store_regularly(), self._reloading.run())]
                try:
                    await self.serve([listener])
                finally:
                    for task in regular:
                        task.cancel()
                    await asyncio.gather(*regular, return_exceptions=True)
                    self._save()
                    await self._context.documents.close()
            finally:
                await self._models.close()

    async def _start(self) -> None:
        await asyncio.gather(self._models.start(), self._context.service.load())

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept requests, and report it."""
        await super().startup(sockets)
        self._on_ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Do nothing: `run_until_stopped` handles the signals, also while the models are loaded."""
        yield

    @contextlib.contextmanager
    def _signals(self) -> Generator[None, None, None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handlers: dict[signal.Signals, Callable[[], None]] = dict.fromkeys(ENDING, self._stop)
        handlers[signal.SIGHUP] = self._hang_up
        former = {number: signal.getsignal(number) for number in handlers}
        # The parent process may have set SIGINT or SIGHUP to be ignored, as nohup does.
        handled = [number for number in handlers if former[number] != signal.SIG_IGN or number == signal.SIGTERM]
        for number in handled:
            loop.add_signal_handler(number, handlers[number])
        # The verb holds one back that arrives before.
        mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            for number in handled:
                loop.remove_signal_handler(number)
                signal.signal(number, former[number])

    def _stop(self) -> None:
        if self._app.stopping:
            # The second signal: do not wait.
            self._app.give_up()
            return
        self._app.stopping = self.should_exit = True
        if not self.started and self._starting is not None:
            self._starting.cancel()
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._app.give_up)

    def _hang_up(self) -> None:
        if not self._app.stopping:
            self._reloading.ask()

    async def _store_regularly(self) -> None:
        """Write the usage of keys, and delete old files."""
        while True:
            await asyncio.sleep(STORING_SECONDS)
            self._save()
            try:
                await asyncio.to_thread(self._context.files.sweep)
            except Exception as error:
                _LOG.error("old files cannot be deleted: %s", reason_of(error))
                self._metrics.count_failure("deleting files")

    def _save(self) -> None:
        try:
            self._usage.save()
        except Exception as error:
            _LOG.error("the usage of keys cannot be saved: %s", error)
            self._metrics.count_failure("saving usage")
