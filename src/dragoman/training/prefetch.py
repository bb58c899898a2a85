"""Batches on their way to a GPU while it works on the one before."""

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import TypeVar

import torch

from dragoman.data.batching import Cursor
from dragoman.training.objective import B

Item = TypeVar("Item")
# Batches that wait: enough to bridge a long one, few enough to stay small.
DEPTH = 4


def on_device(stream: Iterator[tuple[B, Cursor]], device: torch.device) -> Generator[tuple[B, Cursor], None, None]:
    """Yield the same batches, on `device`.

    For a GPU a thread reads them ahead into pinned memory, from where they are copied without anyone waiting. The
    thread ends when the iterator is closed; what it raises is raised here.
    """
    if device.type != "cuda":
        yield from ((batch.to(device), cursor) for batch, cursor in stream)
        return
    with closing(read_ahead((batch.pin_memory(), cursor) for batch, cursor in stream)) as pinned:
        for batch, cursor in pinned:
            yield batch.to(device), cursor


def read_ahead(stream: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the same items, read by a thread up to DEPTH ahead."""
    waiting: queue.Queue[Item | BaseException | None] = queue.Queue(DEPTH)
    closed = threading.Event()

    def put(item: Item | BaseException | None) -> None:
        while not closed.is_set():
            with suppress(queue.Full):
                waiting.put(item, timeout=0.1)
                return

    def read() -> None:
        try:
            for item in stream:
                put(item)
                if closed.is_set():
                    return
            put(None)
        except BaseException as error:
            put(error)

    thread = threading.Thread(target=read, name="read ahead", daemon=True)
    thread.start()
    try:
        while (item := waiting.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        closed.set()
        thread.join()
