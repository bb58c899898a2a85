"""The stream of training windows: order, offsets, short texts, foreign cursors."""

from itertools import islice

import pytest
import torch

from dragoman.data.batching import Cursor
from dragoman.errors import CorpusError
from dragoman.text.subwords import BOS, EOS
from dragoman.training.text_stream import TextStream
from tests.support.small_texts import stream_of


def first_batches(stream: TextStream, count: int, epoch: int = 0) -> list[list[list[int]]]:
    return [batch.tokens_in.tolist() for batch, _ in islice(stream.from_cursor(Cursor(epoch=epoch)), count)]


def test_order_and_offset_depend_on_seed_and_epoch() -> None:
    corpus = stream_of([range(10, 1000)])
    orders = [first_batches(TextStream(corpus, 8, 32, seed), 5, epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert len({str(order) for order in orders}) == 4
    assert orders[0] == first_batches(TextStream(corpus, 8, 32, 0), 5)
    # The windows of two epochs begin at different offsets.
    assert len({(order[0][0][1] - 10) % 8 for order in orders}) > 1


def test_a_text_shorter_than_a_window_is_one_window() -> None:
    stream = TextStream(stream_of([[10]]), context=64, batch_tokens=640, seed=0)
    for batch, cursor in islice(stream.from_cursor(Cursor()), 3):
        assert batch.tokens_in.tolist() == [[BOS, 10]]
        assert batch.tokens_out.tolist() == [[10, EOS]]
        assert cursor.batch == 0
    assert torch.equal(stream.longest().tokens_in, batch.tokens_in)


@pytest.mark.parametrize("cursor", [Cursor(batch=4), Cursor(window=1), Cursor(batch=-1)])
def test_a_cursor_of_another_corpus_is_an_error(cursor: Cursor) -> None:
    stream = TextStream(stream_of([range(10, 40)]), context=8, batch_tokens=8, seed=0)
    with pytest.raises(CorpusError, match="is outside this corpus"):
        next(stream.from_cursor(cursor))
