"""Lines as users have them: of any bytes, of any number; cleaned by the same code for training and translating."""

import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest

from dragoman.errors import CorpusError
from dragoman.text.characters import replace_surrogates

# A stream reads at most so much ahead of what it has returned.
LINES_AHEAD = 2000
CHARACTERS_AHEAD = 1_000_000
# A longer line is not given to a model, unless the user says otherwise.
MAX_LINE_CHARACTERS = 10_000_000

# Every character at which some reader of text would begin a new line, and NUL.
_BREAKS = "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_BREAK = re.compile(f"[{_BREAKS}]")
_AS_SPACES = dict.fromkeys(map(ord, _BREAKS), " ")


def clean_line(text: str) -> str:
    """Return the text with every line break and NUL a space, and no white space at its ends."""
    # Few lines have any, and looking for one takes a fraction of the time and memory of replacing.
    if _BREAK.search(text):
        text = text.translate(_AS_SPACES)
    return text.strip()


def read_line(line: str | bytes) -> tuple[str, bool]:
    """A line as clean text, and whether it was something else than Unicode."""
    if isinstance(line, bytes):
        text = line.decode("utf-8", "replace")
        return clean_line(text), text.encode() != line
    # Text may hold surrogates, for example those by which Python remembers undecodable bytes.
    text = replace_surrogates(line)
    return clean_line(text), text != line


def with_prefixes(
    lines: Iterable[str | bytes], prefixes: Iterable[str | bytes]
) -> Iterator[tuple[str | bytes, str | bytes]]:
    """Each line with its prefix; CorpusError where one of the two ends before the other."""
    for number, (line, prefix) in enumerate(zip_longest(lines, prefixes), 1):
        if line is None or prefix is None:
            missing = "line" if line is None else "prefix"
            raise CorpusError(f"there is no {missing} number {number}; give one prefix for each line")
        yield line, prefix


def portions(
    lines: Iterable[tuple[str | bytes, str | bytes]],
) -> Iterator[list[tuple[str | bytes, str | bytes]]]:
    """Lines and their prefixes in lists, none longer than what may be read ahead."""
    some: list[tuple[str | bytes, str | bytes]] = []
    size = 0
    for line, prefix in lines:
        some.append((line, prefix))
        size += len(line)
        if len(some) == LINES_AHEAD or size >= CHARACTERS_AHEAD:
            yield some
            some, size = [], 0
    if some:
        yield some
