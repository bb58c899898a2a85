"""Reading running text: documents of files, folders, JSON lines and standard input; bad input."""

import gzip
import io
import json
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

import dragoman.data.texts
from dragoman.data.texts import DocumentUnit, Part, find_texts, read_texts
from dragoman.errors import CorpusError, SettingsError


def documents(arguments: Sequence[str | Path], unit: DocumentUnit = "file") -> list[str]:
    return joined(read_texts(find_texts([str(argument) for argument in arguments]), unit))


def joined(parts: Iterable[Part]) -> list[str]:
    texts = [""]
    for text, ends in parts:
        texts[-1] += text
        if ends:
            texts.append("")
    assert texts.pop() == ""
    return texts


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dragoman.data.texts, "BLOCK", 3)


TEXT = "First line\r\nsecond \t\n\n \r\n\n  Third\0 ü中😀\n\nlast"


def test_a_file_is_one_document_unchanged(tmp_path: Path, small_blocks: None) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert documents([tmp_path / "a.md"]) == [TEXT]


def test_paragraphs_and_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TEXT.encode())
    assert documents([tmp_path / "a.txt"], "paragraph") == ["First line\nsecond \t", "  Third\0 ü中😀", "last"]
    assert documents([tmp_path / "a.txt"], "line") == ["First line", "second \t", "  Third\0 ü中😀", "last"]


@pytest.mark.parametrize("unit", ["paragraph", "line"])
def test_documents_do_not_depend_on_the_size_of_blocks(
    unit: DocumentUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "one\r\ntwo\n" + "long " * 30 + "\r\nend\n\n\n" + "x" * 100 + "\n" + "y" * 99 + "\r\n \n\nz\r"
    (tmp_path / "a.txt").write_bytes(text.encode())
    expected = documents([tmp_path / "a.txt"], unit)
    assert expected[-1] == "z\r"
    assert len(expected) == {"paragraph": 3, "line": 7}[unit]
    for size in (7, 8, 11, 64, 99, 100, 101):
        monkeypatch.setattr(dragoman.data.texts, "BLOCK", size)
        parts = list(read_texts(find_texts([str(tmp_path / "a.txt")]), unit))
        assert joined(parts) == expected
        assert max(len(part.text) for part in parts) <= 4 * size


def test_json_lines_and_compressed_files_and_folders(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "b.txt").write_text("b")
    (folder / "deep/a.txt.gz").write_bytes(gzip.compress(b"a"))
    (folder / "other.py").write_text("no")
    (folder / "empty.txt").write_text("")
    lines = [json.dumps({"text": text, "more": 1}) for text in ("one\ntwo", "", " \n", "ü\0")]
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + "\n")
    assert documents([tmp_path / "c.jsonl", folder]) == ["one\ntwo", "ü\0", "b", "a"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert documents(["-"], "line") == ["a", "b"]
    with pytest.raises(CorpusError, match="only once"):
        find_texts(["-", "-"])


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5abc"])
def test_bytes_that_are_not_utf8_are_located(bad: bytes, tmp_path: Path, small_blocks: None) -> None:
    before = "\ufeffü one\n中 two\n😀".encode()
    for after in (b"", b"ab\n"):
        path = tmp_path / "bad.txt"
        path.write_bytes(before + bad + after)
        with pytest.raises(CorpusError, match=rf"bad\.txt:3: byte {len(before) + 1} of the file \(0x{bad[0]:02X}\)"):
            list(read_texts(find_texts([str(path)])))


def test_errors_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"texts": "b"}\n')
    with pytest.raises(CorpusError, match=r"a\.jsonl:2: no text under the key 'text'"):
        documents([tmp_path / "a.jsonl"])
    (tmp_path / "a.jsonl").write_text("[1]")
    with pytest.raises(CorpusError, match=r"a\.jsonl:1: not a JSON object with the key text"):
        documents([tmp_path / "a.jsonl"])
    with pytest.raises(CorpusError, match=r"missing\.txt: cannot be read: No such file"):
        documents([tmp_path / "missing.txt"])
    with pytest.raises(CorpusError, match="cannot be read: File name too long"):
        documents(["a text in place of a file " * 200])
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(bytes(range(65, 91)) * 1000)[:-20])
    with pytest.raises(CorpusError, match=r"cut\.txt\.gz: after .* bytes of text: the compressed file is truncated"):
        documents([tmp_path / "cut.txt.gz"])
    with pytest.raises(SettingsError, match="documents is 'word'; choose file, paragraph, line"):
        list(read_texts([], "word"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("content", "unit"), [(b"", "file"), (b"\xef\xbb\xbf", "file"), (b" \n\r\n", "line")])
def test_a_corpus_without_text_is_an_error(content: bytes, unit: DocumentUnit, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(CorpusError, match=r"there is no text in .*a\.txt"):
        documents([tmp_path / "a.txt"], unit)
    (tmp_path / "a.txt").unlink()
    with pytest.raises(CorpusError, match=r"the folder contains no file in \.txt"):
        find_texts([str(tmp_path)])
