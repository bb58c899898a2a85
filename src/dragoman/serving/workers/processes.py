"""The server's side of its processes: the nursery that loads models, and the workers that it forks."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from contextlib import suppress
from itertools import count
from typing import Literal, Self

from dragoman.errors import ModelError, reason_of
from dragoman.serving.attention_requests import AttentionForm
from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.workers.frames import FrameError, decode_message, encode_frame, encode_message, read_frame
from dragoman.serving.workers.held_models import HoldingSettings
from dragoman.serving.workers.line_window import LineWindow
from dragoman.serving.workers.messages import AttentionRequest, Failure, LineRequest, Refusal, read_number, read_part
from dragoman.serving.workers.nursery import END_SECONDS, MAX_MESSAGE_BYTES
from dragoman.settings import to_mapping
from dragoman.translation.results import Translation

# Seconds between pings of a worker, and number of these intervals after which it is killed if it has sent nothing, or
# its engine has not proceeded: about 4 seconds. Intervals are counted, because time also passes while the whole server
# is suspended.
PING_SECONDS, STUCK_PINGS = 0.3, 13
# Seconds that a nursery has to load the models and to fork a worker, and a worker to load models that need torch.
LOADING_SECONDS, FORK_SECONDS, WORKER_SECONDS = 600.0, 3.0, 300.0
LOST = "the process that had this text has ended: send the request again"
_LOG = logging.getLogger(__name__)


class NurseryProcess:
    """A nursery; see `nursery`. Made by `start`."""

    def __init__(self, process: asyncio.subprocess.Process, control: socket.socket) -> None:
        self._process, self._control = process, control

    @classmethod
    async def start(cls, settings: HoldingSettings) -> Self:
        """Start a nursery and let it load models.

        Raises:
            ModelError: if a model is missing, damaged, or not finite, or the process cannot be started, ends, or takes
                longer than 10 minutes.
            SettingsError: if a setting is not available for a model.
        """
        try:
            nursery = await cls._started(settings)
        except OSError as error:
            reason = reason_of(error)
            raise ModelError(f"the process that loads the models cannot be started: {reason}") from error
        try:
            nursery._control.send(encode_message({"load": to_mapping(settings)}))
            async with asyncio.timeout(LOADING_SECONDS):
                answer = await nursery._receive()
            if "error" in answer:
                raise read_part(Failure, answer["error"]).error()
        except TimeoutError:
            await nursery.close(kill=True)
            raise ModelError(f"the models were not loaded within {LOADING_SECONDS:g} s") from None
        except (FrameError, OSError) as error:
            await nursery.close()
            status = nursery._process.returncode
            raise ModelError(f"the process that loads the models has ended ({status})") from error
        except BaseException:
            await nursery.close()
            raise
        return nursery

    @classmethod
    async def _started(cls, settings: HoldingSettings) -> Self:
        control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        control.setblocking(False)
        try:
            with other:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "dragoman.serving.workers.nursery", str(other.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=[other.fileno()],
                    # The signals of a terminal reach the server only.
                    start_new_session=True,
                    # numpy's library would start threads, which a fork does not copy.
                    env={"OMP_NUM_THREADS": str(settings.threads), **os.environ, "OPENBLAS_NUM_THREADS": "1"},
                )
        except BaseException:
            control.close()
            raise
        return cls(process, control)

    async def fork(self, kind: Literal["lines", "attention"]) -> WorkerProcess:
        """Return a new worker, which is ready.

        Args:
            kind: "lines" for one that translates, "attention" for one that computes attention.

        Raises:
            ModelError: if its models cannot be loaded, or this process has no file descriptor left.
            OSError: if the nursery or the worker has ended, or does not answer.
        """
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise ModelError(f"no process can be started: {reason_of(error)}") from error
        try:
            with theirs:
                socket.send_fds(self._control, [encode_message({"fork": kind})], [theirs.fileno()])
            reader, writer = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            raise
        try:
            # From the worker, not from the nursery: an answer that nobody waits for any more cannot be taken for
            # that to another request.
            async with asyncio.timeout(FORK_SECONDS):
                pid = read_number((await read_frame(reader) or {}).get("started"))
        except TimeoutError:
            writer.transport.abort()
            raise TimeoutError(f"no process was started within {FORK_SECONDS:g} s") from None
        except FrameError as error:
            writer.transport.abort()
            raise ConnectionError("a process has ended before it was ready") from error
        except BaseException:
            writer.transport.abort()
            raise
        worker = WorkerProcess(pid, reader, writer)
        try:
            async with asyncio.timeout(WORKER_SECONDS):
                await worker.become_ready()
        except BaseException:
            await worker.close(kill=True)
            raise
        return worker

    async def _receive(self) -> dict[str, object]:
        body = await asyncio.get_running_loop().sock_recv(self._control, MAX_MESSAGE_BYTES)
        if not body:
            raise ConnectionError("the process that loads the models has ended")
        return decode_message(body)

    async def close(self, *, kill: bool = False) -> None:
        """End the nursery; the workers whose connections are open continue."""
        self._control.close()
        if self._process.returncode is not None:
            return
        if kill:
            with suppress(ProcessLookupError):
                self._process.kill()
        try:
            async with asyncio.timeout(END_SECONDS + 1):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


class WorkerProcess:
    """A worker; see `worker` and `attention_worker`.

    Args:
        pid: its process id.
        reader: reads what the worker writes.
        writer: writes to the worker.
    """

    def __init__(self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.characters = 0
        """Characters of the lines in flight."""
        self._reader, self._writer = reader, writer
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Translation | str]] = {}
        self._window = LineWindow(self._write)
        # Intervals in which the worker has sent nothing, and answers in succession that its engine has not proceeded.
        self._silent = self._halted = 0
        self._pinged = False
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()

    async def become_ready(self) -> None:
        """Wait until the worker can translate, and begin to watch it.

        Raises:
            ModelError: if its models cannot be loaded.
            ConnectionError: if it has ended.
        """
        try:
            message = await read_frame(self._reader)
        except FrameError as error:
            raise ConnectionError(str(error)) from error
        if message is None:
            raise ConnectionError("a worker has ended before it was ready")
        if "error" in message:
            raise read_part(Failure, message["error"]).error()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]

    @property
    def in_flight(self) -> int:
        """Number of lines in flight."""
        return len(self._waiting)

    @property
    def alive(self) -> bool:
        """False if the worker has ended, or has been given up."""
        # A write can find the connection broken before the reader does; uvloop then raises RuntimeError at the next.
        return not self._ended.is_set() and not self._writer.is_closing()

    async def wait(self) -> None:
        """Wait until the worker has ended, or has been given up."""
        await self._ended.wait()

    async def translate(self, pair: Pair, line: str, options: LineOptions) -> Translation:
        """Return the translation of a line; see `LineTranslator.translate_line`."""
        number = next(self._numbers)
        request = LineRequest(id=number, pair=pair, line=line, options=options)
        # An empty line is work, too.
        translation = await self._answer(number, {"translate": to_mapping(request)}, len(line) + 1, options.group)
        assert isinstance(translation, Translation)
        return translation

    async def attention(self, pair: Pair, text: str, translation: str, form: AttentionForm) -> str:
        """Return the attention of a sentence and its translation; see `AttentionSource`."""
        number = next(self._numbers)
        request = AttentionRequest(id=number, pair=pair, text=text, translation=translation, form=form)
        result = await self._answer(number, {"attention": to_mapping(request)}, len(text) + len(translation))
        assert isinstance(result, str)
        return result

    async def _answer(
        self, number: int, message: dict[str, object], characters: int, group: int = 0
    ) -> Translation | str:
        """Send a request, and return its answer."""
        try:
            frame = encode_frame(message)
        except FrameError as error:
            raise RequestError(413, f"the line is too long: {error}") from error
        if not self.alive:
            raise RequestError(503, LOST, retry_after=1)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self.characters += characters
        try:
            self._window.add(number, group, frame)
            return await answer
        except asyncio.CancelledError:
            if not self._window.withdraw(number, group):
                self._write(encode_frame({"cancel": number}))
            raise
        finally:
            self._waiting.pop(number, None)
            self.characters -= characters

    def _write(self, frame: bytes) -> None:
        if self.alive:
            self._writer.write(frame)

    async def close(self, *, kill: bool = False) -> None:
        """Close the connection, on which the worker ends; its lines in flight are lost."""
        self._give_up(kill=kill)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(OSError):
            await self._writer.wait_closed()

    def _give_up(self, *, kill: bool) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        if kill:
            # The connection was open until now, so the process id is still that of the worker.
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self._writer.transport.abort()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(RequestError(503, LOST, retry_after=1))

    async def _read(self) -> None:
        """Pass answers on until the worker ends."""
        ended = False
        try:
            with suppress(FrameError):
                while (message := await read_frame(self._reader)) is not None:
                    self._receive(message)
                ended = True
        finally:
            # After the end of the connection, another process may have the process id.
            self._give_up(kill=not ended)

    def _receive(self, message: dict[str, object]) -> None:
        self._silent = 0
        match message:
            case {"pong": _, "proceeds": bool(proceeds)}:
                self._pinged = False
                self._halted = 0 if proceeds else self._halted + 1
            case {"id": number, "translation": value}:
                self._settle(read_number(number), read_part(Translation, value))
            case {"id": number, "attention": str(result)}:
                self._settle(read_number(number), result)
            case {"id": number, "refused": value}:
                refusal = read_part(Refusal, value)
                self._settle(read_number(number), RequestError(refusal.status, refusal.message))
            case {"cancelled": number}:
                self._window.finish(read_number(number))
            case _:
                raise FrameError("a message is of an unknown kind")

    def _settle(self, number: int, outcome: Translation | str | RequestError) -> None:
        self._window.finish(number)
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        if isinstance(outcome, RequestError):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    async def _watch(self) -> None:
        """Give the worker up when it hangs, or its engine does."""
        for number in count():
            if self._silent > STUCK_PINGS or self._halted > STUCK_PINGS:
                _LOG.error("process %d does not answer, or its engine hangs: it is killed", self.pid)
                self._give_up(kill=True)
                return
            # One at a time: pings that arrive together would find an engine that has not proceeded between them.
            if not self._pinged:
                self._pinged = True
                self._write(encode_frame({"ping": number}))
            self._silent += 1
            await asyncio.sleep(PING_SECONDS)
