"""Lines of input, which may contain any bytes: decoded and cleaned by the same code for training and translation."""

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from dragoman.errors import CorpusError
from dragoman.text.characters import replace_surrogates

# Limits on how many lines and characters a stream reads ahead of its output.
LINES_AHEAD = 2000
CHARACTERS_AHEAD = 1_000_000
# Default limit above which a line is copied instead of translated.
MAX_LINE_CHARACTERS = 10_000_000

# Every character that some program treats as a line break, and NUL.
_BREAKS = "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
LINE_BREAK = re.compile(f"[{_BREAKS}]")
_AS_SPACES = dict.fromkeys(map(ord, _BREAKS), " ")


def clean_line(text: str) -> str:
    """Return the text with every line break and NUL replaced by a space, and without white space at its ends."""
    # Few lines contain such a character, and searching needs a fraction of the time and memory of replacing.
    if LINE_BREAK.search(text):
        text = text.translate(_AS_SPACES)
    return text.strip()


def read_line(line: str | bytes) -> tuple[str, bool]:
    """Return a line as clean text, and True if it contained invalid UTF-8 or lone surrogates."""
    if isinstance(line, bytes):
        text = line.decode("utf-8", "replace")
        return clean_line(text), text.encode() != line
    # Text may contain surrogates, for example those with which Python represents undecodable bytes.
    text = replace_surrogates(line)
    return clean_line(text), text != line


def with_prefixes(
    lines: Iterable[str | bytes], prefixes: Iterable[str | bytes]
) -> Iterator[tuple[str | bytes, str | bytes]]:
    """Yield each line with its prefix.

    Raises:
        CorpusError: if there are more lines than prefixes, or more prefixes than lines.
    """
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), 1):
        if line is None or prefix is None:
            missing = "line" if line is None else "prefix"
            raise CorpusError(f"{missing} {number} is missing; give one prefix for each line")
        yield line, prefix


def portions(
    lines: Iterable[tuple[str | bytes, str | bytes]],
) -> Iterator[list[tuple[str | bytes, str | bytes]]]:
    """Yield lists of lines with their prefixes: at most `LINES_AHEAD` lines, about `CHARACTERS_AHEAD` characters."""
    portion: list[tuple[str | bytes, str | bytes]] = []
    size = 0
    for line, prefix in lines:
        portion.append((line, prefix))
        size += len(line)
        if len(portion) == LINES_AHEAD or size >= CHARACTERS_AHEAD:
            yield portion
            portion, size = [], 0
    if portion:
        yield portion
