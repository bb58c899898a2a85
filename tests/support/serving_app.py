"""A server with a route of its own and a fake translator, as a program and in this process.

The program prints its URL when it is ready: python -m tests.support.serving_app PORT DATA [KEYS]
"""

import asyncio
import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from dragoman.serving.access.admission import Admission
from dragoman.serving.access.body_limits import BodyLimits
from dragoman.serving.access.bounded_protocol import bounded_protocol
from dragoman.serving.app import build_app
from dragoman.serving.attention_requests import AttentionForm, AttentionSource
from dragoman.serving.context import Access, ServerContext
from dragoman.serving.documents.documents import Documents
from dragoman.serving.documents.file_store import FileStore
from dragoman.serving.interfaces import deepl
from dragoman.serving.limits import Limits
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.metrics import Metrics
from dragoman.serving.request_error import RequestError
from dragoman.serving.running import ServerSettings, run_server
from dragoman.serving.texts.service import TranslationService
from dragoman.serving.workers.pool import PoolStatistics
from dragoman.translation.results import Translation
from tests.support.paths import REPOSITORY


class NoAttention:
    """An `AttentionSource` without attention to show."""

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        raise RequestError(400, "this model has no attention, so there is nothing to show")


class FakeModels(NoAttention):
    """Fake models, whose translations do not end; `version` counts how often they were loaded."""

    def __init__(self) -> None:
        self.version = 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        return (("en", "de"),)

    @property
    def directories(self) -> tuple[Path, ...]:
        return ()

    async def start(self) -> None:
        self.version += 1

    async def reload(self) -> None:
        await asyncio.sleep(0.2)
        self.version += 1

    async def close(self) -> None:
        self.version = 0

    async def ready(self) -> bool:
        return self.version > 0

    def statistics(self) -> PoolStatistics:
        return PoolStatistics(workers=3, in_flight=0, characters=0, restarts=0, reloads=self.version, failed_reloads=0)

    async def translate_line(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        await asyncio.sleep(1000)
        raise NotImplementedError


@dataclass
class Endpoints:
    """Routes for tests: /echo answers with the body after `seconds` of the query, /fail raises, /stream never ends."""

    cancelled: list[str] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/echo", self._echo, methods=["POST"]),
            Route("/v1/echo", self._echo, methods=["POST"]),
            Route("/v2/echo", self._echo, methods=["POST"]),
            Route("/fail", self._fail, methods=["POST"]),
            Route("/large", self._large),
            Route("/stream", self._stream),
        ]

    async def _echo(self, request: Request) -> Response:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            await asyncio.sleep(float(request.query_params.get("seconds", "0")))
        except asyncio.CancelledError:
            self.cancelled.append(request.url.path)
            raise
        finally:
            self.running -= 1
        return Response(await request.body(), media_type="text/plain")

    async def _fail(self, request: Request) -> Response:
        raise RuntimeError((await request.body()).decode())

    async def _stream(self, request: Request) -> Response:
        async def parts() -> AsyncIterator[bytes]:
            try:
                yield b"first"
                await asyncio.sleep(1000)
            finally:
                self.cancelled.append(request.url.path)

        return StreamingResponse(parts())

    async def _large(self, request: Request) -> Response:
        return Response(b"x" * (64 << 20))


def make_context(
    service: TranslationService,
    access: Access,
    limits: Limits,
    data: Path,
    suggestions: Path | None = None,
    attention: AttentionSource | None = None,
) -> ServerContext:
    """Return what interfaces share."""
    files = FileStore(data / "files")
    return ServerContext(
        service=service,
        attention=attention or NoAttention(),
        access=access,
        limits=limits,
        data=data,
        files=files,
        documents=Documents(service, files),
        suggestions=suggestions,
    )


def behind_limits(app: ASGIApp, limits: Limits) -> ASGIApp:
    """Return an application behind the middleware that receives, admits and cancels requests."""
    limited = BodyLimits(Admission(app, limits, exempt=()), limits)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await (limited if scope["type"] == "http" else app)(scope, receive, send)

    return answer


async def _is_ready() -> bool:
    return True


@contextmanager
def serving(
    limits: Limits, endpoints: Endpoints, hosts: Sequence[str] | None = None, origins: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Serve in a thread; yield the address."""
    app = build_app(endpoints.routes(), limits=limits, metrics=Metrics(), ready=_is_ready, hosts=hosts, origins=origins)
    config = uvicorn.Config(
        app,
        http=bounded_protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        address: tuple[str, int] = listener.getsockname()
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            wait_until(lambda: server.started)
            yield address
        finally:
            server.should_exit = True
            thread.join()


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "the condition does not hold in time"
        time.sleep(0.01)


def request(
    address: tuple[str, int],
    method: str,
    path: str,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Return the status, the headers (names in lower case) and the body of the response."""
    connection = http.client.HTTPConnection(*address, timeout=30)
    try:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return response.status, received, response.read()
    finally:
        connection.close()


@contextmanager
def server_program(*arguments: str | Path) -> Iterator[tuple["subprocess.Popen[str]", tuple[str, int]]]:
    """Start this module as a program; yield the process and the address of the server."""
    command = [sys.executable, "-m", "tests.support.serving_app", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
    ) as process:
        try:
            yield process, printed_address(process)
        finally:
            process.kill()


def printed_address(process: "subprocess.Popen[str]") -> tuple[str, int]:
    """Return the address in the line that a server prints when it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("http://"), line + (process.stderr.read() if process.stderr else "")
    host, _, port = line.split()[0].removeprefix("http://").rstrip("/").rpartition(":")
    return host, int(port)


def main(port: str, data: str, keys: str = "") -> None:
    models = FakeModels()

    def routes(context: ServerContext) -> list[BaseRoute]:
        async def version(request: Request) -> Response:
            with context.access.admit(request, request.query_params.get("key"), 5):
                return JSONResponse({"version": models.version})

        return [Route("/version", version), *Endpoints().routes(), *deepl.routes(context)]

    settings = ServerSettings(
        host="127.0.0.1",
        port=int(port),
        limits=Limits(),
        data=Path(data),
        keys=Path(keys) if keys else None,
    )
    run_server(settings, models, routes, on_ready=lambda url, pairs: print(url, pairs, flush=True))


if __name__ == "__main__":
    from dragoman.cli import log_as_messages

    log_as_messages()
    main(*sys.argv[1:])
