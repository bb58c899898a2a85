"""Reading of JSON files and other regular files, and the errors for files that cannot be used."""

import os
import tracemalloc
from pathlib import Path

import pytest

from dragoman.errors import CorpusError, ModelError, UserError
from dragoman.files import read_json_object, read_regular


def test_an_object_in_utf_8_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"name": "für", "sizes": [1, 2.5, null]}', encoding="utf-8")
    assert read_json_object(path, missing="no file", error=ModelError) == {"name": "für", "sizes": [1, 2.5, None]}


@pytest.mark.parametrize("error", [CorpusError, ModelError])
def test_a_missing_file_gives_the_message_of_the_caller(tmp_path: Path, error: type[UserError]) -> None:
    with pytest.raises(error, match=r"^train a model first$"):
        read_json_object(tmp_path / "a.json", missing="train a model first", error=error, advice="copy it anew")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is damaged: .*"),
        (b"{", "is damaged: .*"),
        (b'{"a": 1} {}', "is damaged: .*"),
        (b"\xff\xfe{}", "is damaged: .*"),
        ("{}".encode("utf-16"), "is damaged: .*"),
        (b"[" * 100_000, "is damaged: .*"),
        (b'{"a": ' + b"1" * 100_000 + b"}", "is damaged: .*"),
        (b"[]", "is damaged: it is not a JSON object"),
        (b"null", "is damaged: it is not a JSON object"),
        (b'"a"', "is damaged: it is not a JSON object"),
    ],
    ids=lambda value: repr(value)[:20],
)
@pytest.mark.parametrize(("advice", "end"), [("", ""), ("copy it anew", "; copy it anew")])
def test_a_damaged_file_is_named_with_what_to_do(
    tmp_path: Path, content: bytes, message: str, advice: str, end: str
) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=rf"^{path} {message}{end}$"):
        read_json_object(path, missing="no file", error=ModelError, advice=advice)


def test_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=rf"^{tmp_path} cannot be read: .*directory.*; remove it$"):
        read_json_object(tmp_path, missing="no file", error=CorpusError, advice="remove it")


def test_a_file_takes_no_more_memory_than_it_has_bytes(tmp_path: Path) -> None:
    """The limit itself is not allocated, and nothing is read from a sparse file above the limit."""
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"some bytes")
    large.touch()
    os.truncate(large, 1 << 40)
    tracemalloc.start()
    try:
        assert read_regular(small, 1 << 28) == b"some bytes"
        with pytest.raises(OSError, match="more than 268,435,456 bytes"):
            read_regular(large, 1 << 28)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1 << 20
