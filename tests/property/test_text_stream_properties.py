"""Windows of training and evaluation cover the text; a resumed stream equals an uninterrupted one."""

from itertools import islice

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.batching import Cursor
from dragoman.data.evaluation_windows import evaluation_batches, evaluation_windows
from dragoman.data.token_stream import TokenStream, WindowBatch
from dragoman.text.subwords import BOS, PAD
from dragoman.training.text_stream import TextStream
from tests.support.small_texts import stream_of


@st.composite
def streams(draw: st.DrawFn) -> TokenStream:
    """Return a stream of documents in which every token that is not a special symbol occurs once."""
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    ends = np.cumsum(lengths)
    return stream_of([range(10 + end - length, 10 + end) for length, end in zip(lengths, ends.tolist(), strict=True)])


def epoch(stream: TextStream, number: int) -> list[WindowBatch]:
    batches = []
    for batch, cursor in stream.from_cursor(Cursor(epoch=number)):
        batches.append(batch)
        if cursor.epoch > number:
            assert cursor == Cursor(epoch=number + 1)
            return batches
    raise AssertionError


@given(streams(), st.integers(1, 40), st.integers(1, 100), st.integers(0, 5), st.integers(0, 3))
@settings(deadline=None)
def test_an_epoch_has_every_token_once_except_at_the_ends(
    corpus: TokenStream, context: int, batch_tokens: int, seed: int, number: int
) -> None:
    stream = TextStream(corpus, context, batch_tokens, seed)
    batches = epoch(stream, number)
    length = min(context, len(corpus) - 1)
    rows = max(1, batch_tokens // context)
    assert all(batch.tokens_in.shape[1] == length for batch in batches)
    assert [len(batch.tokens_in) for batch in batches[:-1]] == [rows] * (len(batches) - 1)
    assert 1 <= len(batches[-1].tokens_in) <= rows
    windows = torch.cat([batch.tokens_in for batch in batches]).tolist()
    tokens = corpus.tokens.tolist()
    # In their order, the windows are consecutive parts of the stream.
    starts = sorted(next(i for i in range(len(tokens)) if tokens[i : i + length] == window) for window in windows)
    if length > 2:
        assert starts == list(range(starts[0], starts[0] + length * len(windows), length))
    assert len(windows) == (len(tokens) - 1 - starts[0]) // length
    assert 0 <= starts[0] < length or length <= 2


@given(streams(), st.integers(1, 40), st.integers(1, 100))
@settings(deadline=None)
def test_documents_and_targets_of_a_batch(corpus: TokenStream, context: int, batch_tokens: int) -> None:
    for batch, _ in islice(TextStream(corpus, context, batch_tokens, 0).from_cursor(Cursor()), 3):
        tokens_in = batch.tokens_in
        documents = torch.zeros_like(tokens_in) if batch.documents is None else batch.documents
        mask = torch.ones_like(tokens_in, dtype=torch.bool) if batch.target_mask is None else batch.target_mask
        assert batch.tokens == int(mask.sum())
        assert (batch.documents is None) == (not bool((tokens_in[:, 1:] == BOS).any()))
        assert (documents[:, 0] == 0).all()
        assert torch.equal(documents.diff(dim=1), (tokens_in[:, 1:] == BOS).long())
        assert torch.equal(batch.tokens_out == PAD, ~mask)
        # A target is the next token of the row, except for the BOS of a document.
        following = torch.where(mask, batch.tokens_out, BOS)[:, :-1]
        assert torch.equal(following, tokens_in[:, 1:])


@given(streams(), st.integers(1, 20), st.integers(1, 60), st.integers(0, 15))
@settings(deadline=None, max_examples=50)
def test_a_resumed_stream_equals_an_uninterrupted_one(
    corpus: TokenStream, context: int, batch_tokens: int, interruption: int
) -> None:
    stream = TextStream(corpus, context, batch_tokens, seed=3)
    batches = list(islice(stream.from_cursor(Cursor()), 20))
    cursor = batches[interruption][1]
    resumed = list(islice(stream.from_cursor(cursor), 19 - interruption))
    for (batch, after), (again, after_again) in zip(batches[interruption + 1 :], resumed, strict=True):
        assert after == after_again
        assert torch.equal(batch.tokens_in, again.tokens_in)
        assert torch.equal(batch.tokens_out, again.tokens_out)


@given(streams(), st.integers(1, 20), st.integers(1, 60))
@settings(deadline=None, max_examples=50)
def test_no_batch_is_larger_than_the_longest(corpus: TokenStream, context: int, batch_tokens: int) -> None:
    stream = TextStream(corpus, context, batch_tokens, seed=3)
    longest = stream.longest()
    for batch, _ in islice(stream.from_cursor(Cursor()), 10):
        assert batch.tokens_in.numel() <= longest.tokens_in.numel()
        assert batch.documents is None or longest.documents is not None


@given(streams(), st.integers(1, 40), st.data())
@settings(deadline=None)
def test_every_token_is_scored_once_with_its_context(corpus: TokenStream, context: int, data: st.DataObject) -> None:
    stride = data.draw(st.integers(1, context))
    windows = iter(evaluation_windows(corpus, context, stride))
    for index in range(len(corpus.starts)):
        document = corpus.document(index).tolist()
        scored = 1
        while scored < len(document):
            tokens, first = next(windows)
            start = scored - first
            assert 1 < len(tokens) <= context + 1
            assert document[start : start + len(tokens)] == tokens.tolist()
            assert first == scored if start == 0 else first > context - stride
            scored = start + len(tokens)
    assert next(windows, None) is None


@given(streams(), st.integers(1, 40), st.integers(1, 100), st.data())
@settings(deadline=None, max_examples=50)
def test_batches_of_evaluation_have_the_same_windows(
    corpus: TokenStream, context: int, batch_tokens: int, data: st.DataObject
) -> None:
    stride = data.draw(st.integers(1, context))
    most = data.draw(st.none() | st.integers(1, len(corpus)))
    windows = list(evaluation_windows(corpus, context, stride))
    expected: list[int] = []
    while windows and (most is None or len(expected) < most):
        tokens, first = windows.pop(0)
        expected += tokens[first:].tolist()
    scored: list[int] = []
    for batch in evaluation_batches(corpus, context, stride, batch_tokens, most):
        assert batch.documents is None
        assert batch.tokens_in.numel() <= batch_tokens or len(batch.tokens_in) == 1
        mask = torch.ones_like(batch.tokens_out, dtype=torch.bool) if batch.target_mask is None else batch.target_mask
        assert batch.tokens == int(mask.sum())
        scored += batch.tokens_out[mask].tolist()
    assert sorted(scored) == sorted(expected)
    assert most is not None or sorted(scored) == sorted(token for token in corpus.tokens.tolist() if token != BOS)
