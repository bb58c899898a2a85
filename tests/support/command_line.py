"""Running of commands in this process, and models to run them on."""

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
    """Run a command in this process and return its exit status."""
    words = list(map(str, arguments))
    # tyro reads it too.
    monkeypatch.setattr(sys, "argv", ["dragoman", *words])
    return cli.run(words)


def make_workplace(folder: Path) -> Path:
    """Make a directory with corpora and two models, trained for a few updates each; return it."""
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
