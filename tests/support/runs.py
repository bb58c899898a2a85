"""Trainings that take seconds, and corpora to give them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dragoman.data.readers import Pair

# With all that has a state to go on with: accumulation, subword sampling, both kinds of averages.
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

# Three validations and a checkpoint at each.
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
