"""Windows for the evaluation of a language model: every token is scored once, with context from earlier windows."""

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from dragoman.data.token_stream import Ids, TokenStream, WindowBatch, batch_of_rows
from dragoman.text.subwords import PAD

# Number of windows that are sorted by length together, so that batches have little padding.
_SORTED_TOGETHER = 4096


class EvaluationWindow(NamedTuple):
    """Consecutive tokens of one document.

    Attributes:
        tokens: at most `context` + 1 tokens, each of which is predicted from those before it.
        first: index of the first token that is scored, at least 1; those before it are its context.
    """

    tokens: Ids
    first: int


def evaluation_windows(stream: TokenStream, context: int, stride: int) -> Iterator[EvaluationWindow]:
    """Yield windows of each document, in order.

    Every token except BOS is scored in exactly one window. It is predicted from at least `context` - `stride` + 1
    tokens, or from all tokens before it if there are fewer.

    Args:
        stream: the documents.
        context: largest number of tokens from which one is predicted.
        stride: number of tokens that are scored in each window after the first: from 1, the most exact, to `context`,
            the fastest.
    """
    assert 1 <= stride <= context
    for index in range(len(stream.starts)):
        document = stream.document(index)
        end = min(len(document), context + 1)
        yield EvaluationWindow(document[:end], 1)
        while end < len(document):
            scored, end = end, min(len(document), end + stride)
            start = max(0, end - context - 1)
            yield EvaluationWindow(document[start:end], scored - start)


def evaluation_batches(
    stream: TokenStream, context: int, stride: int, batch_tokens: int, most_tokens: int | None = None
) -> Iterator[WindowBatch]:
    """Yield the windows of `evaluation_windows` in batches, in any order.

    The rows of a batch end with PAD where they are shorter than the longest; `target_mask` is True for the tokens that
    are scored.

    Args:
        stream: the documents.
        context: largest number of tokens from which one is predicted.
        stride: number of tokens that are scored in each window after the first.
        batch_tokens: largest number of tokens in a batch, including padding; a batch has at least one row.
        most_tokens: number of tokens, from the beginning of the stream, after which no further window is scored; None
            for all.
    """
    most = len(stream) if most_tokens is None else most_tokens
    windows = _first(evaluation_windows(stream, context, stride), most)
    while together := list(islice(windows, _SORTED_TOGETHER)):
        together.sort(key=lambda window: -len(window.tokens))
        while together:
            width = len(together[0].tokens)
            rows = max(1, batch_tokens // (width - 1))
            yield _batch(together[:rows], width)
            together = together[rows:]
        stream.release()


def _first(windows: Iterator[EvaluationWindow], most_tokens: int) -> Iterator[EvaluationWindow]:
    """Yield windows until `most_tokens` tokens have been scored."""
    scored = 0
    for window in windows:
        yield window
        scored += len(window.tokens) - window.first
        if scored >= most_tokens:
            return


def _batch(windows: list[EvaluationWindow], width: int) -> WindowBatch:
    rows = np.full((len(windows), width), PAD, dtype=np.int64)
    predicted = np.zeros((len(windows), width - 1), dtype=np.bool_)
    for line, scored, (tokens, first) in zip(rows, predicted, windows, strict=True):
        line[: len(tokens)] = tokens
        scored[first - 1 : len(tokens) - 1] = True
    return batch_of_rows(rows, predicted)
