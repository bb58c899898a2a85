"""Verbs as a user types them, and models to use them on."""

import json
import sys
from pathlib import Path

import pytest

from dragoman import cli
from tests.support.number_words import split_numbers
from tests.support.runs import TINY_RUN, write_tsv

SETTINGS = [
    f"--set={table}.{key}={json.dumps(value)}"
    for table in ("tokenizer", "batching", "schedule", "training")
    for key, value in TINY_RUN[table].items()
]


def dragoman(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """Run a verb in this process and give its exit code."""
    words = list(map(str, arguments))
    # tyro looks at it too.
    monkeypatch.setattr(sys, "argv", ["dragoman", *words])
    return cli.run(words)


def make_workplace(folder: Path) -> Path:
    """Corpora and two models, of a few updates each."""
    training, validation, test = split_numbers()
    write_tsv(folder / "train.tsv", training[:600])
    write_tsv(folder / "valid.tsv", validation[:20])
    write_tsv(folder / "test.tsv", test[:12])
    for name, seed in (("model", 1), ("other", 2)):
        with pytest.MonkeyPatch.context() as patch:
            code = dragoman(
                patch,
                *("train", folder / "train.tsv", "--validation", folder / "valid.tsv", "--out", folder / name),
                *("--preset", "tiny", "--source-language", "en", "--target-language", "de", *SETTINGS),
                f"--set=training.seed={seed}",
            )
        assert code == 0
    return folder
