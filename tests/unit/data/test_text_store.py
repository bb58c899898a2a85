"""Stored text: round trip, the split by position and by documents, damage."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import dragoman.data.text_store
from dragoman.data.text_store import StoredTexts, TextCounts, store_texts
from dragoman.data.texts import Part
from dragoman.errors import CorpusError, SettingsError, StorageError


def parts_of(documents: list[str]) -> Iterator[Part]:
    for document in documents:
        yield Part(document[:3], False)
        yield Part(document[3:], True)


def joined(parts: Iterator[Part]) -> list[str]:
    texts = [""]
    for part in parts:
        assert part.text
        texts[-1] += part.text
        if part.ends:
            texts.append("")
    assert texts.pop() == ""
    return texts


DOCUMENTS = ["a", "two\nlines\0", "中中中中中 ü😀"]


@pytest.mark.parametrize("block", [4, 7, 2**20])
def test_documents_are_read_as_written(block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dragoman.data.text_store, "BLOCK", block)
    monkeypatch.setattr(dragoman.data.text_store, "WRITTEN_AT_ONCE", 2)
    stored = store_texts(parts_of(DOCUMENTS), tmp_path / "text")
    text = "".join(DOCUMENTS)
    assert stored.counts == TextCounts(documents=3, characters=len(text), bytes=len(text.encode()))
    assert joined(stored.parts()) == DOCUMENTS
    assert joined(StoredTexts.open(tmp_path / "text").parts()) == DOCUMENTS


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("block", [4, 2**20])
def test_the_end_of_a_few_documents_is_held_out(
    share: float, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dragoman.data.text_store, "BLOCK", block)
    text = "".join(DOCUMENTS)
    split = store_texts(parts_of(DOCUMENTS), tmp_path / "text").split(share)
    training, validation = joined(split.training()), joined(split.validation())
    assert "".join(training) == text[: int(len(text) * (1 - share))]
    assert "".join(training + validation) == text
    assert len(training + validation) in (3, 4)


def test_a_cut_between_documents_divides_none(tmp_path: Path) -> None:
    split = store_texts(parts_of(["abc", "defgh", "ij"]), tmp_path / "text").split(0.2)
    assert joined(split.training()) == ["abc", "defgh"]
    assert joined(split.validation()) == ["ij"]


def test_many_documents_are_split_as_wholes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dragoman.data.text_store, "MANY_DOCUMENTS", 500)
    documents = [f"document {number % 250}" for number in range(500)]
    split = store_texts(parts_of(documents), tmp_path / "text").split(0.3, seed=1)
    training, validation = joined(split.training()), joined(split.validation())
    assert sorted(training + validation) == sorted(documents)
    # Equal documents are on the same side.
    assert not set(training) & set(validation)
    assert 0.2 < len(validation) / len(documents) < 0.4
    equal = store_texts(parts_of(["same"] * 500), tmp_path / "equal").split(0.1)
    with pytest.raises(CorpusError, match=r"no document is left for (training|validation)"):
        list(equal.training()) + list(equal.validation())


def test_a_text_that_cannot_be_split(tmp_path: Path) -> None:
    stored = store_texts(parts_of(["a"]), tmp_path / "text")
    with pytest.raises(CorpusError, match="the text has 1 characters, which is too few to hold out 10%"):
        stored.split(0.1)
    with pytest.raises(SettingsError, match="must be between 0 and 1"):
        stored.split(1.0)


@pytest.mark.parametrize("name", ["text.txt", "ends.npy", "meta.json"])
def test_missing_truncated_and_changed_files_are_errors(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "text"
    store_texts(parts_of(DOCUMENTS), directory)
    content = (directory / name).read_bytes()
    for changed in (None, b"", content[:-3], content + b"\0", b"\x93NUMPY\x01\0"):
        if changed is None:
            (directory / name).unlink()
        else:
            (directory / name).write_bytes(changed)
        with pytest.raises(StorageError, match=r"not stored text .* prepare it again"):
            StoredTexts.open(directory)


def test_damaged_text_is_an_error(tmp_path: Path) -> None:
    stored = store_texts(parts_of(DOCUMENTS), tmp_path / "text")
    path = tmp_path / "text/text.txt"
    path.write_bytes(b"\xff" * path.stat().st_size)
    with pytest.raises(StorageError, match=r"text\.txt is damaged .* prepare it again"):
        list(stored.parts())


def test_an_error_of_the_corpus_leaves_the_directory_unchanged(tmp_path: Path) -> None:
    store_texts(parts_of(DOCUMENTS), tmp_path / "text")

    def failing() -> Iterator[Part]:
        yield Part("x", True)
        raise CorpusError("bad line")

    with pytest.raises(CorpusError, match="bad line"):
        store_texts(failing(), tmp_path / "text")
    assert joined(StoredTexts.open(tmp_path / "text").parts()) == DOCUMENTS
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
