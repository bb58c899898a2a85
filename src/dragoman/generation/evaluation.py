"""Evaluation of a language model on text: every token is predicted once, with context from earlier windows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dragoman.data.evaluation_windows import evaluation_batches
from dragoman.data.token_stream import TokenStream
from dragoman.generation.backend import LanguageBackend
from dragoman.generation.results import Evaluation
from dragoman.search.results import require_finite

# Largest number of tokens in a batch of windows.
BATCH_TOKENS = 8192
# Number of tokens that a model which carries its state reads together.
READ_TOGETHER = 1024


def evaluate_stream(
    backend: LanguageBackend[Any],
    stream: TokenStream,
    context: int | None,
    stride: int | None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Evaluation:
    """Return how well a model predicts the documents of a stream.

    Args:
        backend: the model.
        stream: the documents.
        context: largest number of tokens from which one is predicted; None to carry the state of the model from the
            beginning of each document.
        stride: number of tokens that are scored in each window after the first; None without windows.
        on_progress: called with the number of tokens scored so far, and the number of all tokens.

    Raises:
        FloatingPointError: if the model computes values that are not finite.
    """
    tokens = len(stream) - stream.meta.documents
    if context is None:
        parts = _carried(backend, stream)
    else:
        assert stride is not None
        parts = _windows(backend, stream, context, stride)
    nats, done, began = 0.0, 0, time.perf_counter()
    with backend.watching():
        for log_probability, count in parts:
            nats -= log_probability
            done += count
            if on_progress is not None:
                on_progress(done, tokens)
    assert done == tokens
    require_finite(nats)
    return Evaluation(
        nats=nats,
        tokens=tokens,
        characters=stream.meta.characters,
        bytes=stream.meta.bytes,
        documents=stream.meta.documents,
        context=context,
        stride=stride,
        engine=backend.description,
        seconds=max(time.perf_counter() - began, 1e-9),
    )


def _windows(
    backend: LanguageBackend[Any], stream: TokenStream, context: int, stride: int
) -> Iterator[tuple[float, int]]:
    """Yield the sum of the log-probabilities of the next tokens, and their number."""
    for batch in evaluation_batches(stream, context, stride, BATCH_TOKENS):
        tokens, targets = batch.tokens_in.numpy(), batch.tokens_out.numpy()
        scores, _ = backend.score(tokens, targets, backend.start(len(tokens)))
        scored = scores if batch.target_mask is None else scores[batch.target_mask.numpy()]
        yield float(scored.sum(dtype=np.float64)), batch.tokens


def _carried(backend: LanguageBackend[Any], stream: TokenStream) -> Iterator[tuple[float, int]]:
    for index in range(stream.meta.documents):
        document = stream.document(index)
        state = backend.start(1)
        for start in range(0, len(document) - 1, READ_TOGETHER):
            # [1, T + 1]
            ids = document[None, start : start + READ_TOGETHER + 1].astype(np.int64)
            scores, state = backend.score(ids[:, :-1], ids[:, 1:], state)
            yield float(scores.sum(dtype=np.float64)), scores.size
