"""Readers of corpora: TSV, JSON lines, and two parallel plain files, as a stream of pairs.

Any file may be compressed with gzip or zstandard. Files are read in blocks of bytes and split at line feeds only; the
memory needed is limited by `LONGEST_LINE`. Errors name the file and the line.
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
COMPRESSION = {".gz": "gzip", ".zst": "zstd"}
_KNOWN = (
    "give X.tsv (source, tab, target), X.jsonl (keys source and target), two parallel files joined "
    "by a comma (train.en,train.de), or - for TSV on standard input; .gz or .zst may follow"
)


# Largest number of bytes in a line; a file with a longer line is not text.
LONGEST_LINE = 64 * 2**20


class Pair(NamedTuple):
    """A source text and its translation."""

    source: str
    target: str


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Format and files of a corpus, as named on the command line.

    Attributes:
        format: format of the files.
        paths: one path, or the paths of source and target if the format is "parallel"; "-" is standard input.
    """

    format: Literal["tsv", "jsonl", "parallel"]
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return ",".join(self.paths)


def parse_corpus(argument: str) -> Corpus:
    """Return the corpus that a command-line argument names, without opening any file.

    Raises:
        CorpusError: if the argument has an unknown suffix or is not a valid pair of paths.

    Example:
        >>> parse_corpus("train.en,train.de")
        Corpus(format='parallel', paths=('train.en', 'train.de'))
    """
    if argument == "-":
        return Corpus(format="tsv", paths=("-",))
    if "," in argument:
        paths = tuple(argument.split(","))
        if len(paths) != 2 or not all(paths) or "-" in paths:
            raise CorpusError(f"{argument}: expected two files joined by one comma; {_KNOWN}")
        return Corpus(format="parallel", paths=paths)
    name = PurePath(argument)
    suffix = PurePath(name.stem).suffix if name.suffix in COMPRESSION else name.suffix
    if suffix == ".tsv":
        return Corpus(format="tsv", paths=(argument,))
    if suffix == ".jsonl":
        return Corpus(format="jsonl", paths=(argument,))
    raise CorpusError(f"{argument}: unknown suffix {suffix!r}; {_KNOWN}")


def read_corpora(corpora: Sequence[Corpus]) -> Iterator[Pair]:
    """Yield the pairs of all corpora, one corpus after the other.

    Raises:
        CorpusError: see `read_pairs`.
    """
    for corpus in corpora:
        yield from read_pairs(corpus)


def read_pairs(corpus: Corpus) -> Iterator[Pair]:
    """Yield the pairs of a corpus, one per line.

    Raises:
        CorpusError: for invalid UTF-8, a TSV line without exactly one tab, a JSON line without both texts, parallel
            files with different numbers of lines, or damaged compression. The message names file and line.

    Example:
        >>> pairs = list(read_pairs(parse_corpus("corpus.tsv")))
        >>> pairs[0]
        Pair(source='Turn off the light.', target='Schalte das Licht aus.')
    """
    if corpus.format == "parallel":
        yield from _read_parallel(*corpus.paths)
        return
    parse = _pair_from_tsv if corpus.format == "tsv" else _pair_from_json
    [path] = corpus.paths
    for number, text in read_numbered(path):
        try:
            yield parse(text)
        except LineError as error:
            raise CorpusError(f"{path}:{number}: {error}") from error


def read_lines(path: str, max_bytes: int = LONGEST_LINE) -> Iterator[bytes]:
    r"""Yield the lines of a file as bytes, without their line ends.

    Only "\n" and "\r\n" end a line. A line feed at the end of the file does not begin another line; empty lines are
    included. A UTF-8 byte order mark at the start is skipped.

    Args:
        path: the file; "-" for standard input. The suffix .gz or .zst means that it is compressed.
        max_bytes: maximum number of bytes in a line.

    Raises:
        CorpusError: if the file cannot be read, its compression is damaged, or a line is longer than `max_bytes`.

    Example:
        >>> lines = list(read_lines("letter.txt"))
        >>> len(lines)
        3
    """
    count = 0
    try:
        with _open(path) as file:
            while raw := file.readline(max_bytes + 1):
                if len(raw) > max_bytes and not raw.endswith(b"\n"):
                    raise CorpusError(
                        f"{path}:{count + 1}: the line has more than {max_bytes:,} bytes; use a text file with shorter "
                        "lines"
                    )
                line = raw.removeprefix(_BOM) if count == 0 else raw
                count += 1
                if line.endswith(b"\n"):
                    line = line[:-1].removesuffix(b"\r")
                yield line
    except OSError as error:
        raise _unreadable(path, f"{path}:{count + 1}", error) from error


def read_blocks(path: str, size: int) -> Iterator[bytes]:
    """Yield the content of a file in blocks of at most `size` bytes, none of which is empty.

    Args:
        path: the file; "-" for standard input. The suffix .gz or .zst means that it is compressed.
        size: number of bytes read at a time.

    Raises:
        CorpusError: if the file cannot be read, or its compression is damaged.
    """
    read = 0
    try:
        with _open(path) as file:
            while block := file.read(size):
                yield block
                read += len(block)
    except OSError as error:
        raise _unreadable(path, f"{path}: after {read:,} bytes of text", error) from error


def _unreadable(path: str, place: str, error: OSError) -> CorpusError:
    """Return the error for a file that cannot be read; `place` names the file and the place in it."""
    if error.errno == errno.EBADF and path == "-":
        return CorpusError("standard input cannot be read: it is closed; give a file, or pipe text into the command")
    if error.errno is not None:
        return CorpusError(f"{path}: cannot be read: {error.strerror}")
    # pyarrow's errors about the compressed stream have no errno.
    return CorpusError(f"{place}: the compressed file is truncated or damaged ({error}); download or compress it again")


@contextmanager
def _open(path: str) -> Iterator[BinaryIO]:
    compression = COMPRESSION.get(PurePath(path).suffix)
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


def read_numbered(path: str) -> Iterator[tuple[int, str]]:
    """Yield the number (from 1) and the text of each line of a file."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(
                f"{path}:{number}: byte {error.start + 1} of the line (0x{line[error.start]:02X}) "
                "is not UTF-8; convert the file to UTF-8"
            ) from error


def _read_parallel(source_path: str, target_path: str) -> Iterator[Pair]:
    both = zip_longest(read_numbered(source_path), read_numbered(target_path))
    for number, (source, target) in enumerate(both, start=1):
        if source is None or target is None:
            short, long = (source_path, target_path)[:: 1 if source is None else -1]
            raise CorpusError(
                f"{short}:{number}: the line is missing, but {long} has it; "
                "line n of one file must be the translation of line n of the other"
            )
        yield Pair(source[1], target[1])


class LineError(ValueError):
    """An error in a line of a corpus; the message does not contain file and line number."""


def _pair_from_tsv(text: str) -> Pair:
    columns = text.split("\t")
    if len(columns) != 2:
        raise LineError(
            f"expected 2 columns, found {len(columns)}: each line must be the source, one tab and the target"
        )
    return Pair(*columns)


def _pair_from_json(text: str) -> Pair:
    source, target = texts_from_json(text, ("source", "target"))
    return Pair(source, target)


def texts_from_json(line: str, keys: Sequence[str]) -> list[str]:
    """Return the texts under the given keys of a JSON object.

    Raises:
        LineError: if the line is not a JSON object with a text under each key.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineError(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise LineError(f"not a JSON object with the key{'s' * (len(keys) > 1)} {' and '.join(keys)}")
    for key in keys:
        if not isinstance(value.get(key), str):
            raise LineError(f"no text under the key {key!r}")
        # JSON can represent half of a surrogate pair, which is not a character.
        if any("\ud800" <= letter <= "\udfff" for letter in value[key]):
            raise LineError(f"half a surrogate pair (\\ud800 to \\udfff) under the key {key!r}")
    return [value[key] for key in keys]
