"""Glossaries: their entries as text, and the file in which they are stored."""

import sqlite3
from multiprocessing import get_context
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import StorageError
from dragoman.serving.glossaries import store as store_module
from dragoman.serving.glossaries.entries import MAX_ENTRIES, parse_entries, to_tsv
from dragoman.serving.glossaries.store import GlossaryStore
from dragoman.serving.request_error import RequestError

ENTRIES = (("house", "Haus"), ("dog", "Hund"))
PAIR = ("en", "de")


def stored_by_a_process(path: Path, number: int) -> None:
    store = GlossaryStore(path)
    for count in range(10):
        store.create("owner", f"{number}.{count}", PAIR, ENTRIES)


@pytest.mark.parametrize(
    ("text", "entries_format"),
    [
        ("house\tHaus\ndog\tHund", "tsv"),
        ("house\tHaus\r\n\r\n dog \tHund \r\n", "tsv"),
        ("house,Haus\ndog,Hund\n", "csv"),
        ('"house",Haus,en,de\r\n"dog","Hund",en,de', "csv"),
    ],
)
def test_entries_are_parsed(text: str, entries_format: str) -> None:
    assert parse_entries(text, entries_format) == ENTRIES
    assert parse_entries(to_tsv(ENTRIES), "tsv") == ENTRIES


@pytest.mark.parametrize(
    ("text", "entries_format", "message"),
    [
        ("", "tsv", "at least one entry"),
        ("\n\n", "csv", "at least one entry"),
        ("a\tb", "xml", "entries_format must be tsv or csv, not 'xml'"),
        ("a\tb\nc", "tsv", "line 2: expected two terms with one tab"),
        ("a\tb\tc", "tsv", "line 1: expected two terms with one tab"),
        ("a,b,c", "csv", "line 1: expected 2 or 4 columns"),
        ('"a,b', "csv", "line 1: unexpected end of data"),
        ("a\t ", "tsv", "line 1: a term is empty"),
        ("a,\u3000", "csv", "line 1: a term is empty"),
        ("a\tb\na\tc", "tsv", "line 2: the source term 'a' is given twice"),
        ("a\tb\u2028c", "tsv", "line 1: the term .* contains a control character"),
        ('"a\tx",b', "csv", "line 1: the term .* contains a control character"),
        ("a\0\tb", "tsv", "line 1: the term .* contains a control character"),
        ("ä" * 513 + "\tb", "tsv", "line 1: a term has more than 1,024 bytes"),
        ("\n".join(f"{number}\tx" for number in range(MAX_ENTRIES + 1)), "tsv", "at most 10,000 entries"),
    ],
)
def test_entries_are_rejected(text: str, entries_format: str, message: str) -> None:
    with pytest.raises(RequestError, match=message) as error:
        parse_entries(text, entries_format)
    assert error.value.status == 400


@given(st.text(), st.sampled_from(["tsv", "csv"]))
def test_any_text_is_parsed_or_rejected(text: str, entries_format: str) -> None:
    try:
        entries = parse_entries(text, entries_format)
    except RequestError:
        return
    assert parse_entries(to_tsv(entries), "tsv") == entries


def test_glossaries_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "data" / "glossaries.sqlite"
    store = GlossaryStore(path)
    first = store.create("one", "my glossary", PAIR, ENTRIES)
    second = store.create("one", "my glossary", ("de", "en"), ENTRIES[:1])
    assert (first.name, first.pair, first.size) == ("my glossary", PAIR, 2)
    again = GlossaryStore(path)
    assert again.list("one") == [first, second]
    assert again.get("one", first.identifier) == first
    assert again.entries("one", first.identifier) == ENTRIES
    again.delete("one", first.identifier)
    assert store.list("one") == [second]
    for call in (store.get, store.entries, store.delete):
        with pytest.raises(RequestError) as error:
            call("one", first.identifier)
        assert error.value.status == 404
    # The entries are deleted with their glossary.
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM entry").fetchone() == (1,)
    connection.close()


def test_an_owner_sees_only_its_glossaries(tmp_path: Path) -> None:
    store = GlossaryStore(tmp_path / "glossaries.sqlite")
    glossary = store.create("one", "name", PAIR, ENTRIES)
    assert store.list("two") == []
    for call in (store.get, store.entries, store.delete):
        with pytest.raises(RequestError) as error:
            call("two", glossary.identifier)
        assert error.value.status == 404
    assert store.list("one") == [glossary]


def test_an_owner_has_a_limited_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_GLOSSARIES", 1)
    store = GlossaryStore(tmp_path / "glossaries.sqlite")
    store.create("one", "name", PAIR, ENTRIES)
    store.create("two", "name", PAIR, ENTRIES)
    with pytest.raises(RequestError) as error:
        store.create("one", "name", PAIR, ENTRIES)
    assert error.value.status == 456


def test_the_file_has_a_limited_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "_MAX_PAGES", 20)
    store = GlossaryStore(tmp_path / "glossaries.sqlite")
    kept = store.create("one", "name", PAIR, ENTRIES)
    with pytest.raises(RequestError, match="no space") as error:
        store.create("one", "name", PAIR, tuple((f"{number:0500}", "x") for number in range(1000)))
    assert error.value.status == 456
    assert store.list("one") == [kept]


def test_several_processes_use_one_file(tmp_path: Path) -> None:
    path = tmp_path / "glossaries.sqlite"
    context = get_context("spawn")
    processes = [context.Process(target=stored_by_a_process, args=(path, number)) for number in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    store = GlossaryStore(path)
    assert sorted(glossary.name for glossary in store.list("owner")) == [
        f"{n}.{c}" for n in range(2) for c in range(10)
    ]


def test_a_file_in_use_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "glossaries.sqlite"
    store = GlossaryStore(path)
    monkeypatch.setattr(store_module, "_BUSY_SECONDS", 0.01)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    assert store.list("one") == []
    with pytest.raises(RequestError) as error:
        store.create("one", "name", PAIR, ENTRIES)
    assert (error.value.status, error.value.retry_after) == (503, 1)
    connection.close()


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_bytes(b"not a database" * 1000)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE other (column)")
    connection.close()
    newer = tmp_path / "newer.sqlite"
    GlossaryStore(newer)
    with sqlite3.connect(newer) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    damaged = tmp_path / "damaged.sqlite"
    GlossaryStore(damaged)
    with sqlite3.connect(damaged) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    data = bytearray(damaged.read_bytes())
    data[4096:] = bytes(len(data) - 4096)
    damaged.write_bytes(data)
    directory = tmp_path / "directory"
    directory.mkdir()
    for path, reason in ((text, "not a database"), (other, "schema"), (newer, "version 1"), (damaged, "")):
        with pytest.raises(StorageError, match=rf"{path.name} cannot be used as a file of glossaries: .*{reason}"):
            GlossaryStore(path)
    with pytest.raises(StorageError, match="unable to open"):
        GlossaryStore(directory)
