"""Readers of corpora of running text: plain files, folders of them, and JSON lines, as a stream of documents.

Any file may be compressed with gzip or zstandard. Files are read in blocks, so that the memory needed depends neither
on the length of a document nor on that of a line.
"""

import codecs
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePath
from typing import Literal, NamedTuple, get_args

from dragoman.data.readers import COMPRESSION, LineError, read_blocks, read_numbered, texts_from_json
from dragoman.errors import CorpusError, SettingsError

# Number of bytes read at a time, and largest number of characters in a part of a document.
BLOCK = 2**20
_BOM = "\ufeff"

# What one document of a plain file is.
DocumentUnit = Literal["file", "paragraph", "line"]


class Part(NamedTuple):
    """Part of a document, in the order of its text.

    Attributes:
        text: the text; it may be empty in the last part of a document.
        ends: True in the last part of a document.
    """

    text: str
    ends: bool


@dataclass(frozen=True, kw_only=True)
class TextFile:
    """A file of running text.

    Attributes:
        format: "text" (plain) or "jsonl" (a line is a JSON object with one document under the key "text").
        path: the file; "-" is standard input.
    """

    format: Literal["text", "jsonl"]
    path: str


def find_texts(arguments: Sequence[str]) -> list[TextFile]:
    """Return the files that command-line arguments name, without opening any file.

    Args:
        arguments: files; folders, of which all files in .txt (.txt.gz, .txt.zst) are used at any depth, in the order of
            their paths; or "-" for plain text on standard input. A file in .jsonl contains JSON lines, any other file
            plain text.

    Raises:
        CorpusError: if a folder contains no text or cannot be read, or "-" is given twice.

    Example:
        >>> find_texts(["letter.txt"])
        [TextFile(format='text', path='letter.txt')]
    """
    if list(arguments).count("-") > 1:
        raise CorpusError("standard input (-) can be read only once; give - once")
    files: list[TextFile] = []
    for argument in arguments:
        if argument != "-" and _is_folder(argument):
            paths = sorted(_texts_in(argument))
            if not paths:
                raise CorpusError(f"{argument}: the folder contains no file in .txt, .txt.gz or .txt.zst")
            files += [TextFile(format="text", path=path) for path in paths]
        else:
            jsonl = _without_compression(argument).suffix == ".jsonl"
            files.append(TextFile(format="jsonl" if jsonl else "text", path=argument))
    return files


def read_texts(files: Iterable[TextFile], documents: DocumentUnit = "file") -> Iterator[Part]:
    """Yield the documents of files in parts of at most `BLOCK` characters. No document is empty.

    Args:
        files: the files, from `find_texts`.
        documents: what one document of a plain file is: the whole file, a paragraph (paragraphs are separated by blank
            lines) or a line. The text of a whole file is unchanged, except that a byte order mark is removed.
            Paragraphs and lines do not contain the line breaks at their ends, and their other line breaks are line
            feeds. Each line of a JSONL file is one document.

    Raises:
        CorpusError: for a file that cannot be read, invalid UTF-8 or an invalid JSON line, which the message names; or
            if there is no text at all.

    Example:
        >>> list(read_texts(find_texts(["letter.txt"]), "line"))[0]
        Part(text='Turn off the light.', ends=True)
    """
    if documents not in get_args(DocumentUnit):
        raise SettingsError(f"documents is {documents!r}; choose {', '.join(get_args(DocumentUnit))}")
    names: list[str] = []
    empty = True
    for file in files:
        names.append(file.path)
        for part in _read(file, documents):
            empty = False
            yield part
    if empty:
        raise CorpusError(
            f"there is no text in {', '.join(names[:3])}{', …' * (len(names) > 3)}; give a file with text"
        )


def _read(file: TextFile, documents: DocumentUnit) -> Iterator[Part]:
    if file.format == "jsonl":
        return _read_json(file.path)
    blocks = _decoded(file.path)
    if documents == "file":
        return _whole(blocks)
    return (_lines if documents == "line" else _paragraphs)(_line_pieces(blocks))


def _read_json(path: str) -> Iterator[Part]:
    for number, line in read_numbered(path):
        try:
            [text] = texts_from_json(line, ("text",))
        except LineError as error:
            raise CorpusError(f"{path}:{number}: {error}") from error
        if not _blank(text):
            for start in range(0, len(text), BLOCK):
                yield Part(text[start : start + BLOCK], start + BLOCK >= len(text))


def _decoded(path: str) -> Iterator[str]:
    """Yield the text of a file in blocks, none of which is empty; a byte order mark at the start is skipped."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    decoded, line = 0, 1  # number of bytes decoded, and the line after them
    for block in chain(read_blocks(path, BLOCK), (b"",)):
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            before = error.object[: error.start]
            raise CorpusError(
                f"{path}:{line + before.count(10)}: byte {decoded + error.start + 1:,} of the file "
                f"(0x{error.object[error.start]:02X}) is not UTF-8; convert the file to UTF-8"
            ) from error
        shown = text.removeprefix(_BOM) if decoded == 0 else text
        decoded += len(text.encode())
        line += text.count("\n")
        if shown:
            yield shown


def _whole(blocks: Iterator[str]) -> Iterator[Part]:
    empty = True
    for text in blocks:
        empty = False
        yield Part(text, False)
    if not empty:
        yield Part("", True)


def _line_pieces(blocks: Iterator[str]) -> Iterator[Part]:
    """Yield each line without its line break; one of at least `BLOCK` characters in several parts."""
    rest, begun = "", False
    for block in blocks:
        *complete, rest = (rest + block).split("\n")
        for line in complete:
            yield Part(line.removesuffix("\r"), True)
            begun = False
        if len(rest) >= BLOCK:
            # A carriage return is part of the line break if a line feed follows.
            cut = len(rest) - rest.endswith("\r")
            yield Part(rest[:cut], False)
            rest, begun = rest[cut:], True
    if rest or begun:
        yield Part(rest, True)


def _lines(pieces: Iterator[Part]) -> Iterator[Part]:
    begun = False
    for piece in pieces:
        if begun or not _blank(piece.text):
            yield piece
            begun = not piece.ends


def _paragraphs(pieces: Iterator[Part]) -> Iterator[Part]:
    held: list[str] = []
    size = 0
    begun, at_line_start = False, True
    for text, ends in pieces:
        if at_line_start and ends and _blank(text):
            if begun:
                yield Part("".join(held), True)
                held, size, begun = [], 0, False
        else:
            held += ["\n", text] if begun and at_line_start else [text]
            size += len(held[-1]) + 1
            begun = True
            if size >= BLOCK:
                yield Part("".join(held), False)
                held, size = [], 0
        at_line_start = ends
    if begun:
        yield Part("".join(held), True)


def _blank(text: str) -> bool:
    return not text or text.isspace()


def _is_folder(argument: str) -> bool:
    try:
        return Path(argument).is_dir()
    except OSError:
        # For example, the name is too long; the reader reports it.
        return False


def _texts_in(folder: str) -> Iterator[str]:
    def fail(error: OSError) -> None:
        raise CorpusError(f"{error.filename}: the folder cannot be read: {error.strerror}") from error

    for directory, _, names in os.walk(folder, onerror=fail):
        for name in names:
            path = Path(directory, name)
            if _without_compression(name).suffix == ".txt" and path.is_file():
                yield str(path)


def _without_compression(path: str) -> PurePath:
    name = PurePath(path)
    return name.with_suffix("") if name.suffix in COMPRESSION else name
