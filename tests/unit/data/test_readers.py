"""Readers: every format and compression gives the same pairs; errors name file and line."""

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from dragoman.data.readers import (
    Corpus,
    Pair,
    parse_corpus,
    read_corpora,
    read_lines,
    read_pairs,
)
from dragoman.errors import CorpusError, UserError

PAIRS = [
    Pair("Hello", "Hallo"),
    Pair("", ""),
    Pair("a\u2028b\x85c\x0bd\x1ce", "NUL\0 und \r Wagenrücklauf"),
    Pair("中文 \U0001f600", "ﬁn"),
]
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}
TSV = "".join(f"{source}\t{target}\n" for source, target in PAIRS).encode()
JSONL = "".join(json.dumps(pair._asdict()) + "\n" for pair in PAIRS).encode()


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def pairs_of(argument: str) -> list[Pair]:
    return list(read_pairs(parse_corpus(argument)))


@pytest.mark.parametrize("suffix", COMPRESS)
def test_all_formats_give_the_same_pairs(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESS[suffix]
    tsv = write(tmp_path / f"x.tsv{suffix}", compress(TSV))
    jsonl = write(tmp_path / f"x.jsonl{suffix}", compress(JSONL))
    sides = ["".join(pair[side] + "\n" for pair in PAIRS).encode() for side in (0, 1)]
    source = write(tmp_path / f"x.en{suffix}", compress(sides[0]))
    target = write(tmp_path / f"x.de{suffix}", compress(sides[1]))
    assert pairs_of(tsv) == PAIRS
    assert pairs_of(jsonl) == PAIRS
    assert pairs_of(f"{source},{target}") == PAIRS
    corpora = [parse_corpus(argument) for argument in (tsv, jsonl)]
    assert list(read_corpora(corpora)) == PAIRS + PAIRS


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_concatenated_compressed_files_are_one_file(tmp_path: Path, suffix: str) -> None:
    compress = COMPRESS[suffix]
    path = write(tmp_path / f"x.tsv{suffix}", compress(TSV[:5]) + compress(TSV[5:]))
    assert pairs_of(path) == PAIRS


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TSV)))
    assert pairs_of("-") == PAIRS
    assert not sys.stdin.buffer.closed


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [b""]),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"\n\na\n\n", [b"", b"", b"a", b""]),
        (b"a\r\nb\r\r\n\r\n", [b"a", b"b\r", b""]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", [b"a", b"\xef\xbb\xbfb"]),
        (b"\xff\0\x0b\x85\n\xe2\x80\xa8", [b"\xff\0\x0b\x85", b"\xe2\x80\xa8"]),
        (b"x" * 3_000_000 + b"\ny", [b"x" * 3_000_000, b"y"]),
    ],
)
@pytest.mark.parametrize("suffix", COMPRESS)
def test_read_lines(tmp_path: Path, suffix: str, content: bytes, lines: list[bytes]) -> None:
    path = write(tmp_path / f"x.txt{suffix}", COMPRESS[suffix](content))
    assert list(read_lines(path)) == lines


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_line_that_is_too_long_is_named_after_the_lines_before_it_are_read(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"x.txt{suffix}", COMPRESS[suffix](b"a\n12345\n1234567\nb"))
    lines = read_lines(path, max_bytes=5)
    assert [next(lines), next(lines)] == [b"a", b"12345"]
    with pytest.raises(CorpusError, match=r":3: the line has more than 5 bytes"):
        next(lines)


def test_crlf_and_byte_order_mark_are_dropped_from_pairs(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tsv", b"\xef\xbb\xbfa\tb\r\nc\td\r\n")
    assert pairs_of(path) == [Pair("a", "b"), Pair("c", "d")]


@pytest.mark.parametrize(
    ("argument", "corpus"),
    [
        ("-", Corpus(format="tsv", paths=("-",))),
        ("dir.x/a.tsv", Corpus(format="tsv", paths=("dir.x/a.tsv",))),
        ("a.jsonl.zst", Corpus(format="jsonl", paths=("a.jsonl.zst",))),
        ("a.en.gz,a.de", Corpus(format="parallel", paths=("a.en.gz", "a.de"))),
    ],
)
def test_parse_corpus(argument: str, corpus: Corpus) -> None:
    assert parse_corpus(argument) == corpus
    assert str(corpus) == argument


@pytest.mark.parametrize(
    "argument",
    ["", "corpus", "a.txt", "a.gz", "a.tsv.bz2", "a.tsv.gz.zst", "a,b,c", "a,", ",", "-,a", "a.tmx"],
)
def test_an_error_about_an_unknown_format_lists_the_known_ones(argument: str) -> None:
    with pytest.raises(UserError, match=r"X\.tsv .* X\.jsonl .* comma"):
        parse_corpus(argument)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.tsv", b"a\tb\nc\xff\td\n", r"x\.tsv:2: byte 2 of the line \(0xFF\) is not UTF-8"),
        ("x.tsv", b"a\tb\n\xed\xa0\x80\td\n", r"x\.tsv:2: byte 1 .* not UTF-8"),
        ("x.tsv", b"a\tb\nc d\n", r"x\.tsv:2: expected 2 columns, found 1"),
        ("x.tsv", b"a\tb\n\n", r"x\.tsv:2: expected 2 columns, found 1"),
        ("x.tsv", b"a\tb\tc\n", r"x\.tsv:1: expected 2 columns, found 3"),
        ("x.jsonl", b"{}\n", r"x\.jsonl:1: no text under the key 'source'"),
        ("x.jsonl", b'{"source": "a", "target": 1}', r"x\.jsonl:1: no text under the key 'target'"),
        ("x.jsonl", b'{"source": "a", "target": "b"}\n{', r"x\.jsonl:2: not JSON"),
        ("x.jsonl", b"[1]", r"x\.jsonl:1: not a JSON object"),
        ("x.jsonl", b"[" * 200_000, r"x\.jsonl:1: not JSON"),
        ("x.jsonl", b"\n", r"x\.jsonl:1: not JSON"),
        ("x.jsonl", b'{"source": "a\\ud800", "target": "b"}', r"x\.jsonl:1: half a surrogate"),
    ],
)
def test_bad_lines_name_file_and_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = write(tmp_path / name, content)
    with pytest.raises(UserError, match=message):
        pairs_of(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_damaged_compression_names_file_and_line(tmp_path: Path, suffix: str) -> None:
    content = COMPRESS[suffix](b"".join(b"%d\t%d\n" % (i, i * i) for i in range(10_000)))
    for damaged in (content[:-1], content[: len(content) // 2], content + b"junk", b"plain\ttext"):
        path = write(tmp_path / f"x.tsv{suffix}", damaged)
        with pytest.raises(UserError, match=rf"x\.tsv\{suffix}:\d+: .*truncated or damaged"):
            pairs_of(path)


def test_an_error_about_files_of_unequal_length_names_the_missing_line(tmp_path: Path) -> None:
    two, three = write(tmp_path / "two", b"a\nb\n"), write(tmp_path / "three", b"a\nb\n\n")
    for argument in (f"{two},{three}", f"{three},{two}"):
        with pytest.raises(UserError, match=r"two:3: the line is missing, but .*three has it"):
            pairs_of(argument)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    (tmp_path / "directory.tsv").mkdir()
    for name in ("absent.tsv", "absent.tsv.gz", "directory.tsv"):
        with pytest.raises(UserError, match="cannot be read"):
            pairs_of(str(tmp_path / name))
