"""From files of translations to a stream of pairs: TSV, JSON lines, two parallel plain files.

Every file may be compressed with gzip or zstandard. Files are read as bytes and split at line feeds
only, a block at a time: memory is bounded by the longest line. All errors name the file and the line.
"""

import gzip
import io
import json
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import zstandard

from dragoman.errors import UserError

_BLOCK = 1 << 20
_BOM = b"\xef\xbb\xbf"
_KNOWN = (
    "give X.tsv (source, tab, target), X.jsonl (keys source and target), two parallel files joined "
    'by a comma (train.en,train.de), or - for TSV on standard input; ".gz" and ".zst" may follow'
)


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
    """What `argument` names, told by its suffix alone; UserError when it has no known form."""
    if argument == "-":
        return Corpus(format="tsv", paths=("-",))
    if "," in argument:
        paths = tuple(argument.split(","))
        if len(paths) != 2 or not all(paths) or "-" in paths:
            raise UserError(f"{argument}: not two files joined by one comma; {_KNOWN}")
        return Corpus(format="parallel", paths=paths)
    suffix = Path(argument.removesuffix(".gz").removesuffix(".zst")).suffix
    if suffix == ".tsv":
        return Corpus(format="tsv", paths=(argument,))
    if suffix == ".jsonl":
        return Corpus(format="jsonl", paths=(argument,))
    raise UserError(f"{argument}: no format goes by the suffix {suffix!r}; {_KNOWN}")


def read_corpora(corpora: Sequence[Corpus]) -> Iterator[Pair]:
    """The pairs of all corpora, one after the other."""
    for corpus in corpora:
        yield from read_pairs(corpus)


def read_pairs(corpus: Corpus) -> Iterator[Pair]:
    """The pairs of one corpus, one for each line.

    Raises UserError with file and line for: bytes that are not UTF-8, a TSV line without exactly one
    tab, a JSON line without exactly two texts, files of unequal length, damaged compression.
    """
    if corpus.format == "parallel":
        return _read_parallel(*corpus.paths)
    parse = _pair_from_tsv if corpus.format == "tsv" else _pair_from_json
    [path] = corpus.paths
    return (parse(text, where) for where, text in _read_texts(path))


def read_lines(path: str) -> Iterator[bytes]:
    """The lines of a file, or of standard input for "-", as bytes without their ends.

    Lines end at "\\n" or "\\r\\n" and at nothing else. A line feed at the very end of the file begins no
    further line; empty lines within are kept. A UTF-8 byte order mark at the start is dropped.
    Raises UserError when the file cannot be opened, or its compression is damaged.
    """
    count = 0
    try:
        with _open(path) as file:
            for line in file:
                count += 1
                if count == 1:
                    line = line.removeprefix(_BOM)
                if line.endswith(b"\n"):
                    line = line[:-1].removesuffix(b"\r")
                yield line
    except (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError) as error:
        raise UserError(
            f"{path}:{count + 1}: the compressed file is cut short or damaged ({error})"
        ) from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
