"""Prefetching: all batches arrive in order, and no thread is left running."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from dragoman.data.batching import Batch, Cursor, collate
from dragoman.training.prefetch import DEPTH, on_device, read_ahead

Item = tuple[Batch, Cursor]


def stream(count: int, read: list[int] | None = None) -> Iterator[Item]:
    for number in range(count):
        if read is not None:
            read.append(number)
        yield collate([[number]], [[number]]), Cursor(batch=number)


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "read ahead"]


@pytest.mark.parametrize("count", [0, 1, 3 * DEPTH])
def test_all_batches_arrive_in_order(count: int) -> None:
    assert [cursor.batch for _, cursor in read_ahead(stream(count))] == list(range(count))
    assert not readers()


def test_the_queue_is_bounded_and_the_thread_ends_when_closed() -> None:
    read: list[int] = []
    with closing(read_ahead(stream(10**6, read))) as ahead:
        batch, cursor = next(ahead)
        assert (int(batch.source[0, 0]), cursor.batch) == (0, 0)
        for _ in range(200):
            if len(read) == DEPTH + 2:
                break
            threading.Event().wait(0.01)
        assert len(read) == DEPTH + 2
        assert readers()
    assert not readers()
    assert len(read) <= DEPTH + 3


def test_an_exception_of_the_stream_is_raised_by_the_generator() -> None:
    def broken() -> Iterator[Item]:
        yield from stream(2)
        raise ValueError("torn page")

    ahead = read_ahead(broken())
    assert [next(ahead)[1].batch, next(ahead)[1].batch] == [0, 1]
    with pytest.raises(ValueError, match="torn page"):
        next(ahead)
    assert not readers()


def test_no_thread_is_started_on_a_cpu() -> None:
    with closing(on_device(stream(5), torch.device("cpu"))) as batches:
        assert next(batches)[1].batch == 0
        assert not readers()
