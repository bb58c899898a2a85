"""Nursery: the process that loads the models once and forks the workers, which share the memory of the weights.

The server starts it with `python -m dragoman.serving.workers.nursery FILE_DESCRIPTOR`. The file descriptor is a
connection of the type SOCK_SEQPACKET; `messages` lists what goes over it. Only the native engine's models are loaded
here: no torch, and no threads, so that a fork copies nothing that is in use.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

from dragoman.errors import UserError
from dragoman.serving.workers.attention_worker import compute_attention
from dragoman.serving.workers.frames import FrameError, decode_message, encode_frame, encode_message
from dragoman.serving.workers.held_models import HeldModel, HoldingSettings
from dragoman.serving.workers.messages import Failure, read_part
from dragoman.serving.workers.worker import work
from dragoman.settings import to_mapping

# Bytes of a message. The largest lists the model directories.
MAX_MESSAGE_BYTES = 1 << 17
# Signals of a terminal or of a service manager to all processes: the server ends these processes.
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Seconds after which workers that have ended are collected, and that workers have to end after the server.
COLLECT_SECONDS, END_SECONDS = 0.5, 2.0

# What a worker does until its connection is closed.
Work = Callable[[socket.socket, Sequence[HeldModel]], None]


class Nursery:
    """Loads models and forks workers as the messages of the server ask.

    Args:
        control: the connection to the server.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._models: Sequence[HeldModel] = ()
        self._workers: set[int] = set()

    def run(self) -> None:
        """Answer messages until the server closes the connection; then end the workers that do not end themselves.

        Raises:
            FrameError: if a message is not one of those in `messages`.
        """
        # The server may end while models are loaded for it.
        with suppress(BrokenPipeError, ConnectionResetError):
            self._answer_messages()
        self._end_workers()

    def _answer_messages(self) -> None:
        while True:
            ready, _, _ = select.select([self._control], [], [], COLLECT_SECONDS)
            self._collect()
            if not ready:
                continue
            body, descriptors, _, _ = socket.recv_fds(self._control, MAX_MESSAGE_BYTES, 1)
            if not body:
                return
            match decode_message(body), descriptors:
                case {"load": value}, []:
                    self._load(read_part(HoldingSettings, value))
                case {"fork": "lines"}, [descriptor]:
                    self._fork(socket.socket(fileno=descriptor), work)
                case {"fork": "attention"}, [descriptor]:
                    self._fork(socket.socket(fileno=descriptor), compute_attention)
                case _:
                    raise FrameError("a message is of an unknown kind")

    def _load(self, settings: HoldingSettings) -> None:
        try:
            self._models = [HeldModel(source, settings) for source in settings.models]
        except (UserError, FloatingPointError) as error:
            self._control.send(encode_message({"error": to_mapping(Failure.of(error))}))
            return
        # The garbage collector writes into the objects that it visits, which would copy their pages in every worker.
        gc.collect()
        gc.freeze()
        self._control.send(encode_message({"loaded": True}))

    def _fork(self, connection: socket.socket, run: Work) -> None:
        worker = os.fork()
        if worker == 0:
            self._be_worker(connection, run)
        connection.close()
        self._workers.add(worker)

    def _be_worker(self, connection: socket.socket, run: Work) -> None:
        status = 1
        try:
            self._control.close()
            # The server may have given the request up.
            with suppress(BrokenPipeError):
                connection.sendall(encode_frame({"started": os.getpid()}))
            run(connection, self._models)
            status = 0
        except BaseException as error:
            # The message of an error could contain text of a request.
            print(f"a worker ended: {type(error).__name__}", file=sys.stderr, flush=True)
            traceback.print_tb(error.__traceback__)
        finally:
            # Without waiting for threads that search, and without returning into the nursery.
            os._exit(status)

    def _collect(self) -> None:
        for worker in list(self._workers):
            if os.waitpid(worker, os.WNOHANG)[0]:
                self._workers.remove(worker)

    def _end_workers(self) -> None:
        end = time.monotonic() + END_SECONDS
        while self._workers and time.monotonic() < end:
            time.sleep(0.01)
            self._collect()
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def main() -> None:
    """Run the nursery with the connection whose file descriptor is the only argument."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as control:
        Nursery(control).run()


if __name__ == "__main__":
    main()
