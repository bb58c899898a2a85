"""From files of translations to a stream of pairs: TSV, JSON lines, two parallel plain files.

Every file may be compressed, with gzip or zstandard. Files are read as bytes, a block at a time, and
split at line feeds only: memory is bounded by `LONGEST_LINE`. Errors name the file and the line.
"""

import errno
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import BinaryIO, Literal, NamedTuple

import pyarrow as pa

from dragoman.errors import CorpusError

_BOM = b"\xef\xbb\xbf"
_COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_KNOWN = (
    "give X.tsv (source, tab, target), X.jsonl (keys source and target), two parallel files joined "
    "by a comma (train.en,train.de), or - for TSV on standard input; .gz or .zst may follow"
)


# Bytes of a line; one that has more is no line of text.
LONGEST_LINE = 64 * 2**20


class Pair(NamedTuple):
    """A source text and its translation."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One corpus as named on the command line: one path, or two for a parallel corpus."""

    format: Literal["tsv", "jsonl", "parallel"]
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.paths)


def parse_corpus(argument: str) -> Corpus:
    """What `argument` names, told by its form alone; CorpusError when it has no known form."""
    if argument == "-":
        return Corpus(format="tsv", paths=("-",))
    if "," in argument:
        paths = tuple(argument.split(","))
        if len(paths) != 2 or not all(paths) or "-" in paths:
            raise CorpusError(f"{argument}: not two files joined by one comma; {_KNOWN}")
        return Corpus(format="parallel", paths=paths)
    name = PurePath(argument)
    suffix = PurePath(name.stem).suffix if name.suffix in _COMPRESSION else name.suffix
    if suffix == ".tsv":
        return Corpus(format="tsv", paths=(argument,))
    if suffix == ".jsonl":
        return Corpus(format="jsonl", paths=(argument,))
    raise CorpusError(f"{argument}: no format has the suffix {suffix!r}; {_KNOWN}")


def read_corpora(corpora: Sequence[Corpus]) -> Iterator[Pair]:
    """The pairs of all corpora, one after the other; raises what `read_pairs` raises."""
    for corpus in corpora:
        yield from read_pairs(corpus)


def read_pairs(corpus: Corpus) -> Iterator[Pair]:
    """The pairs of one corpus, one from each line.

    Raises CorpusError, with file and line, for bytes that are not UTF-8, a TSV line without exactly
    one tab, a JSON line without both texts, files of unequal length, damaged compression.
    """
    if corpus.format == "parallel":
        yield from _read_parallel(*corpus.paths)
        return
    parse = _pair_from_tsv if corpus.format == "tsv" else _pair_from_json
    [path] = corpus.paths
    for number, text in _read_texts(path):
        try:
            yield parse(text)
        except _LineError as error:
            raise CorpusError(f"{path}:{number}: {error}") from error


def read_lines(path: str, longest: int = LONGEST_LINE) -> Iterator[bytes]:
    r"""The lines of a file, or of standard input for "-", as bytes without their ends.

    Lines end at "\n" or "\r\n" and at nothing else. The line feed that ends the file begins no
    further line; empty lines are lines. A UTF-8 byte order mark at the start is dropped.
    Raises CorpusError when the file cannot be opened, its compression is damaged, or a line has more than `longest`
    bytes.
    """
    count = 0
    try:
        with _open(path) as file:
            while raw := file.readline(longest + 1):
                if len(raw) > longest and not raw.endswith(b"\n"):
                    raise CorpusError(
                        f"{path}:{count + 1}: the line has more than {longest:,} bytes; give text, in shorter lines"
                    )
                line = raw.removeprefix(_BOM) if count == 0 else raw
                count += 1
                if line.endswith(b"\n"):
                    line = line[:-1].removesuffix(b"\r")
                yield line
    except OSError as error:
        if error.errno == errno.EBADF and path == "-":
            raise CorpusError(
                "standard input cannot be read: it is closed; name a file, or pipe text into it"
            ) from error
        if error.errno is not None:
            raise CorpusError(f"{path}: cannot be read: {error.strerror}") from error
        # pyarrow's errors about the compressed stream have no number.
        raise CorpusError(
            f"{path}:{count + 1}: the compressed file is cut short or damaged ({error}); fetch or compress it anew"
        ) from error


@contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    compression = _COMPRESSION.get(PurePath(path).suffix)
    if path == "-":
        yield sys.stdin.buffer
    elif compression is None:
        with Path(path).open("rb") as file:
            yield file
    else:
        with (
            Path(path).open("rb") as file,
            BufferedReader(pa.CompressedInputStream(file, compression)) as plain,
        ):
            yield plain


def _read_texts(path: str) -> Iterator[tuple[int, str]]:
    """The lines of a file as text, numbered from 1."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path}:{number}: byte {error.start + 1} of the line (0x{line[error.start]:02X}) "
                "is not UTF-8; convert the file to UTF-8"
            ) from error


def _read_parallel(source_path: str, target_path: str) -> Iterator[Pair]:
    both = zip_longest(_read_texts(source_path), _read_texts(target_path))
    for number, (source, target) in enumerate(both, start=1):
        if source is None or target is None:
            short, long = (source_path, target_path)[:: 1 if source is None else -1]
            raise CorpusError(
                f"{short}:{number}: no such line, but {long} has one; "
                "line n of one file must translate line n of the other"
            )
        yield Pair(source[1], target[1])


class _LineError(ValueError):
    """What is wrong with a line, wherever it stands."""


def _pair_from_tsv(text: str) -> Pair:
    columns = text.split("\t")
    if len(columns) != 2:
        raise _LineError(
            f"{len(columns)} columns where two are wanted: each line is the source, one tab, and the target"
        )
    return Pair(*columns)


def _pair_from_json(text: str) -> Pair:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _LineError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _LineError("not a JSON object with the keys source and target")
    for key in ("source", "target"):
        if not isinstance(value.get(key), str):
            raise _LineError(f"no text under the key {key!r}")
        # JSON can spell half of a surrogate pair, which is no character.
        if any("\ud800" <= letter <= "\udfff" for letter in value[key]):
            raise _LineError(f"half a surrogate pair (\\ud800 to \\udfff) under the key {key!r}")
    return Pair(value["source"], value["target"])
