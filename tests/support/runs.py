"""Settings of training runs that take seconds, and corpora for them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dragoman.data.batching import Cursor
from dragoman.data.readers import Pair
from dragoman.data.token_stream import WindowBatch
from dragoman.training.loop import Trainer
from dragoman.training.text_stream import TextStream

# Uses every feature with a state that is resumed: accumulation, subword sampling, both kinds of averages.
TINY_RUN: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 400},
    "batching": {"batch_tokens": 256, "window": 200},
    "schedule": {"kind": "linear", "peak_learning_rate": 1e-3, "warmup": 5},
    "training": {
        "steps": 40,
        "validations": 4,
        "accumulate": 2,
        "subword_sampling": 0.1,
        "ema_decay": 0.9,
        "average_last": 2,
    },
}

# Has validations after updates 4, 8 and 12.
SHORT_RUN: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 400},
    "batching": {"batch_tokens": 256, "window": 200},
    "schedule": {"kind": "linear", "peak_learning_rate": 1e-3, "warmup": 5},
    "data": {"validation_pairs": 8},
    "training": {"steps": 12, "validations": 3, "precision": "fp32"},
}


def write_tsv(path: Path, pairs: Sequence[Pair]) -> Path:
    """Write pairs as a corpus; return its path."""
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
    return path


def train_with(monkeypatch: pytest.MonkeyPatch, trainer: Callable[..., Trainer[Any, Any]]) -> None:
    """Make `dragoman.run.train` use another trainer."""
    # The attribute `dragoman.run.train` is the function, not the module.
    monkeypatch.setattr(import_module("dragoman.run.train"), "Trainer", trainer)


@contextmanager
def interrupted_after(batches: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the stream of text fail after a number of batches; the block must fail with it."""
    original = TextStream.from_cursor

    def stops(self: TextStream, cursor: Cursor) -> Iterator[tuple[WindowBatch, Cursor]]:
        for number, batch in enumerate(original(self, cursor)):
            if number == batches:
                raise KeyError("interrupted")
            yield batch

    with monkeypatch.context() as patched:
        patched.setattr(TextStream, "from_cursor", stops)
        with pytest.raises(KeyError, match="interrupted"):
            yield
