"""File names and lines of a corpus with escape codes, line feeds, markup or invalid UTF-8 are printed safely."""

import os
from pathlib import Path

import pytest

from tests.support.command_line import SETTINGS, dragoman
from tests.support.number_words import split_numbers


def test_a_run_in_a_directory_with_a_hostile_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / os.fsdecode(b"[red]\x1b[31m\nforged \xff[/b]")
    folder.mkdir(parents=True)
    corpus = folder / "train.tsv"
    lines = [f"{pair.source} [/b]\t{pair.target} [red]\n" for pair in split_numbers()[0][:300]]
    # The second line is dropped as a duplicate, and shown as an example of this rule.
    corpus.write_text("".join([lines[0], *lines]), encoding="utf-8")
    command: tuple[str | Path, ...] = (
        "train",
        corpus,
        "--out",
        folder / "model",
        "--preset",
        "tiny",
        *SETTINGS,
        "--set=training.steps=4",
    )
    for _ in range(2):
        assert dragoman(monkeypatch, *command) == 0
        output, errors = capfd.readouterr()
        assert "[red]\\x1b[31m\\nforged \\udcff[/b]" in output
        assert "\x1b" not in output + errors
        assert "\nforged" not in output + errors
    assert "resuming the run in" in errors
