"""Prefetching of batches: they are read and copied to a GPU while it computes."""

import queue
import threading
from collections.abc import Generator, Iterator
from contextlib import closing, suppress
from typing import TypeVar

import torch

from dragoman.data.batching import Cursor
from dragoman.training.objective import B

Item = TypeVar("Item")
# Batches in the queue: enough to compute during the reading of a long batch, and few enough to need little memory.
DEPTH = 4


def on_device(stream: Iterator[tuple[B, Cursor]], device: torch.device) -> Generator[tuple[B, Cursor], None, None]:
    """Yield the batches of a stream on `device`.

    For a GPU, a thread reads batches ahead into pinned memory, from which they are copied asynchronously. The thread
    ends when the generator is closed; an exception in the thread is raised by the generator.
    """
    if device.type != "cuda":
        yield from ((batch.to(device), cursor) for batch, cursor in stream)
        return
    with closing(read_ahead((batch.pin_memory(), cursor) for batch, cursor in stream)) as pinned:
        for batch, cursor in pinned:
            yield batch.to(device), cursor


def read_ahead(stream: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield the items of a stream, which a thread reads up to `DEPTH` items ahead."""
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
