"""Detection of text that is copied instead of translated, in a line that is too long for one segment.

No model has learned to translate such text: the output would be unrelated to it and often as long as the maximum length
permits. The following stretches of a line are copied:

- more than `LONGEST_RUN` characters without a letter or a digit: dots, lines, emoji, combining marks, U+FFFD;
- more than `LONGEST_RUN` characters that repeat one character or a pattern of up to `LONGEST_PERIOD` characters;
- more than `LONGEST_WORD` printable ASCII characters without white space: base64, hexadecimal digits, long URLs.
"""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import UInt32

LONGEST_RUN = 64
LONGEST_PERIOD = 8
LONGEST_WORD = 256

# Number of characters compared at a time; limits memory.
_BLOCK = 2**18
# \w is a letter, a digit or "_". The lookbehind lets a match begin only where a stretch begins, and the quantifier is
# possessive, so that the search takes linear time.
_NO_LETTERS = re.compile(rf"(?<![\W_])[\W_]{{{LONGEST_RUN + 1},}}+")
_ENDLESS_WORD = re.compile(rf"(?<![!-~])[!-~]{{{LONGEST_WORD + 1},}}+")


def copied_stretches(line: str) -> list[tuple[int, int]]:
    """Return start and end of each stretch to copy, in order, including the white space around it.

    The stretches do not overlap. The running time is linear in the length of the line.
    """
    if len(line) <= LONGEST_RUN:
        return []
    spans = [match.span() for pattern in (_NO_LETTERS, _ENDLESS_WORD) for match in pattern.finditer(line)]
    for begin in range(0, len(line), _BLOCK):
        # Blocks overlap, so that every stretch of minimum length is completely inside one of them.
        block = line[begin : begin + _BLOCK + LONGEST_RUN]
        codes = np.frombuffer(block.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        for period in range(1, LONGEST_PERIOD + 1):
            spans += [(begin + start, begin + end) for start, end in _repetitions(codes, period)]
    merged: list[tuple[int, int]] = []
    for span in sorted(spans):
        start, end = _with_white_space(line, *span)
        if merged and start <= merged[-1][1]:
            start, end = merged[-1][0], max(end, merged.pop()[1])
        merged.append((start, end))
    return merged


def _repetitions(codes: UInt32[np.ndarray, " characters"], period: int) -> list[tuple[int, int]]:
    """Return the stretches of more than `LONGEST_RUN` characters that repeat with the given period."""
    differs = np.flatnonzero(codes[period:] != codes[:-period])
    # [number of breaks + 2]: the indices at which a repetition ends and the next one may begin
    breaks = np.concatenate([[-1], differs, [len(codes) - period]])
    long = np.flatnonzero(np.diff(breaks) - 1 + period > LONGEST_RUN)
    return list(zip((breaks[long] + 1).tolist(), (breaks[long + 1] + period).tolist(), strict=True))


def _with_white_space(line: str, start: int, end: int) -> tuple[int, int]:
    """Extend a stretch by the white space on both sides."""
    while start > 0 and line[start - 1].isspace():
        start -= 1
    while end < len(line) and line[end].isspace():
        end += 1
    return start, end
