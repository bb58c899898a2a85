"""Stored files: unguessable names, a limited time, number and size; and the file of suggestions."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.serving.documents.file_store import FileStore, StoredFile
from dragoman.serving.interfaces.libretranslate.suggestions import Suggestion, Suggestions
from dragoman.serving.request_error import RequestError


def make_old(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_file_is_found_by_its_token_also_by_a_later_process(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "a" / "b")
    first, second = store.put(b"1", "a.txt"), store.put(b"2", "a.txt")
    assert first != second
    for each in (store, FileStore(tmp_path / "a" / "b")):
        assert each.get(first) == StoredFile(name="a.txt", content=b"1")
        assert each.get(second) == StoredFile(name="a.txt", content=b"2")
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "_.._etc_passwd"),
        ("...", "file"),
        ("", "file"),
        ('a"\r\nb;ü.txt', "a___b__.txt"),
        ("a" * 200 + ".txt", "a" * 96 + ".txt"),
    ],
)
def test_names_are_safe(tmp_path: Path, name: str, safe: str) -> None:
    store = FileStore(tmp_path / "files")
    token = store.put(b"", name)
    assert store.get(token).name == safe
    assert list(tmp_path.rglob("*")) == [tmp_path / "files", tmp_path / "files" / token]


def test_other_files_cannot_be_reached(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "files")
    token = store.put(b"", "a")
    (tmp_path / "secret").write_text("secret")
    link = "0" * 32 + ".link"
    (tmp_path / "files" / link).symlink_to(tmp_path / "secret")
    for wrong in ("", "../secret", token + "/../../secret", token + "\n", "0" * 32 + "..", "1" * 32 + ".a", "\0"):
        with pytest.raises(RequestError) as raised:
            store.get(wrong)
        assert raised.value.status == 404
    with pytest.raises(OSError, match="symbolic link"):
        store.get(link)


@given(st.text())
def test_any_other_token_is_refused(tmp_path_factory: pytest.TempPathFactory, token: str) -> None:
    with pytest.raises(RequestError):
        FileStore(tmp_path_factory.getbasetemp() / "nothing").get(token)


def test_a_file_is_taken_once(tmp_path: Path) -> None:
    store = FileStore(tmp_path)
    token = store.put(b"1", "a.txt")
    assert store.take(token) == StoredFile(name="a.txt", content=b"1")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RequestError, match="there is no such file"):
        store.take(token)


def test_old_files_are_deleted(tmp_path: Path) -> None:
    store = FileStore(tmp_path, seconds=100)
    old, new = store.put(b"old", "a"), store.put(b"new", "b")
    make_old(tmp_path / old, 101)
    make_old(tmp_path / new, 99)
    with pytest.raises(RequestError, match="there is no such file"):
        store.get(old)
    assert store.get(new).content == b"new"
    assert list(tmp_path.iterdir()) == [tmp_path / new]
    make_old(tmp_path / new, 101)
    FileStore(tmp_path, seconds=100)
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_give_way(tmp_path: Path) -> None:
    store = FileStore(tmp_path, max_files=3, max_bytes=100)
    tokens = []
    for number in range(4):
        tokens.append(store.put(b"a" * 10, str(number)))
        make_old(tmp_path / tokens[-1], 10 - number)
    assert {path.name for path in tmp_path.iterdir()} == set(tokens[1:])
    last = store.put(b"b" * 85, "last")
    assert {path.name for path in tmp_path.iterdir()} == {tokens[3], last}
    with pytest.raises(RequestError) as raised:
        store.put(b"c" * 101, "too large")
    assert raised.value.status == 413
    assert {path.name for path in tmp_path.iterdir()} == {tokens[3], last}


def add_many(path: Path, name: str) -> None:
    suggestions = Suggestions(path)
    for number in range(50):
        suggestions.add(Suggestion(q=name * 20_000, s=str(number), source="en", target="de"))


def test_suggestions_of_several_processes(tmp_path: Path) -> None:
    path = tmp_path / "suggestions"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=add_many, args=(path, name)) for name in "ab"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    suggestions = [json.loads(line) for line in path.read_bytes().splitlines()]
    for name in "ab":
        assert [each["s"] for each in suggestions if each["q"] == name * 20_000] == [str(n) for n in range(50)]


def test_the_file_of_suggestions_is_bounded(tmp_path: Path) -> None:
    suggestions = Suggestions(tmp_path / "suggestions", max_bytes=100)
    suggestions.add(Suggestion(q="a", s="b", source="en", target="de"))
    before = (tmp_path / "suggestions").read_bytes()
    with pytest.raises(RequestError) as raised:
        suggestions.add(Suggestion(q="a" * 80, s="b", source="en", target="de"))
    assert raised.value.status == 503
    assert (tmp_path / "suggestions").read_bytes() == before


def test_a_directory_beside_the_files_stays(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    os.utime(tmp_path / "lost+found", (0, 0))
    store = FileStore(tmp_path, max_files=1)
    for content in (b"first", b"second"):
        token = store.put(content, "file")
    assert store.get(token).content == b"second"
    assert len(list(tmp_path.iterdir())) == 2


def test_suggestions_on_a_full_disk() -> None:
    with pytest.raises(RequestError) as raised:
        Suggestions(Path("/dev/full")).add(Suggestion(q="a", s="b", source="en", target="de"))
    assert (raised.value.status, raised.value.retry_after) == (503, 60)
