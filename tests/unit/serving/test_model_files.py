"""Model directories that change while they are served."""

import os
from pathlib import Path

import pytest

from dragoman.serving.workers.model_files import ModelFiles


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.model"):
        (model / name).write_text(name)
    return model


def replace_file(path: Path, text: str) -> None:
    (path.parent / "temporary").write_text(text)
    (path.parent / "temporary").replace(path)


def test_files_that_stay_the_same(directory: Path) -> None:
    files = ModelFiles([directory])
    (directory / "metrics.json").write_text("{}")
    (directory / "run").mkdir()
    assert [files.replaced() for _ in range(3)] == [False] * 3


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.model", "alignment.json"])
def test_a_file_that_was_replaced_counts_once(directory: Path, name: str) -> None:
    files = ModelFiles([directory.parent, directory])
    replace_file(directory / name, name)
    assert [files.replaced() for _ in range(4)] == [False, True, False, False]


def test_files_that_still_change_are_not_taken(directory: Path) -> None:
    files = ModelFiles([directory])
    weights = directory / "model.safetensors"
    for size in range(3):
        weights.write_text("x" * size)
        assert not files.replaced()
    weights.unlink()
    assert not files.replaced()
    os.utime(directory / "config.json", (1, 1))
    weights.write_text("whole")
    assert [files.replaced() for _ in range(3)] == [False, True, False]


def test_files_that_were_read_otherwise_are_not_taken_again(directory: Path) -> None:
    files = ModelFiles([directory])
    replace_file(directory / "config.json", "new")
    assert not files.replaced()
    files.read()
    assert [files.replaced() for _ in range(3)] == [False] * 3


def test_a_link_to_another_directory(directory: Path, tmp_path: Path) -> None:
    link = tmp_path / "served"
    link.symlink_to(directory)
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.json").write_text("other")
    files = ModelFiles([link])
    (tmp_path / "new").symlink_to(other)
    (tmp_path / "new").replace(link)
    assert [files.replaced() for _ in range(3)] == [False, True, False]
