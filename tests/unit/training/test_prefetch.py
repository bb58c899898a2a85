"""Batches read ahead: all of them, in order, and nothing left behind."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch

from dragoman.data.batching import Batch, Cursor, collate
from dragoman.training.prefetch import DEPTH, on_device, read_ahead

Placed = tuple[Batch, Cursor]


def stream(count: int, made: list[int] | None = None) -> Iterator[Placed]:
    for number in range(count):
        if made is not None:
            made.append(number)
        yield collate([[number]], [[number]]), Cursor(batch=number)


def readers() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "read ahead"]


@pytest.mark.parametrize("count", [0, 1, 3 * DEPTH])
def test_everything_comes_in_order(count: int) -> None:
    assert [cursor.batch for _, cursor in read_ahead(stream(count))] == list(range(count))
    assert not readers()


def test_it_reads_no_further_than_it_may_and_ends_when_closed() -> None:
    made: list[int] = []
    with closing(read_ahead(stream(10**6, made))) as ahead:
        batch, cursor = next(ahead)
        assert (int(batch.source[0, 0]), cursor.batch) == (0, 0)
        for _ in range(200):
            if len(made) == DEPTH + 2:
                break
            threading.Event().wait(0.01)
        assert len(made) == DEPTH + 2
        assert readers()
    assert not readers()
    assert len(made) <= DEPTH + 3


def test_what_the_stream_raises_is_raised_where_it_is_read() -> None:
    def broken() -> Iterator[Placed]:
        yield from stream(2)
        raise ValueError("torn page")

    ahead = read_ahead(broken())
    assert [next(ahead)[1].batch, next(ahead)[1].batch] == [0, 1]
    with pytest.raises(ValueError, match="torn page"):
        next(ahead)
    assert not readers()


def test_on_a_cpu_no_thread_is_needed() -> None:
    with closing(on_device(stream(5), torch.device("cpu"))) as batches:
        assert next(batches)[1].batch == 0
        assert not readers()
