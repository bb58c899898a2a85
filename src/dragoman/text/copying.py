"""What is copied rather than translated in a line that is too long for one piece: text that no model has learned.

A model that reads such text says something unrelated, often up to the maximum length. Copied are stretches of

- more than `LONGEST_RUN` characters without a letter or a digit: dots, lines, emoji, combining marks, U+FFFD;
- more than `LONGEST_RUN` characters in which one character or a pattern of up to `LONGEST_PERIOD` repeats;
- more than `LONGEST_WORD` printable ASCII characters without white space: base64, hexadecimal digits, long addresses.
"""

from __future__ import annotations

import re

import numpy as np
from jaxtyping import UInt32

LONGEST_RUN = 64
LONGEST_PERIOD = 8
LONGEST_WORD = 256

# Characters that are compared at a time: bounds memory.
_BLOCK = 2**18
# \w is a letter, a digit or "_". Begun at the beginning of a stretch only, and possessive: linear time.
_NO_LETTERS = re.compile(rf"(?<![\W_])[\W_]{{{LONGEST_RUN + 1},}}+")
_ENDLESS_WORD = re.compile(rf"(?<![!-~])[!-~]{{{LONGEST_WORD + 1},}}+")


def copied_stretches(line: str) -> list[tuple[int, int]]:
    """Return beginning and end of each stretch that is copied, in order, with the white space around it.

    What is between two of them has no such stretch. Takes time in proportion to the length of the line.
    """
    if len(line) <= LONGEST_RUN:
        return []
    spans = [match.span() for pattern in (_NO_LETTERS, _ENDLESS_WORD) for match in pattern.finditer(line)]
    for begin in range(0, len(line), _BLOCK):
        # Blocks overlap, so that every stretch of the least length is inside one of them.
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
    """Return the stretches of more than `LONGEST_RUN` characters, each equal to the one `period` characters before."""
    differs = np.flatnonzero(codes[period:] != codes[:-period])
    # [breaks + 2]: where a stretch of equal characters ends and the next begins
    breaks = np.concatenate([[-1], differs, [len(codes) - period]])
    long = np.flatnonzero(np.diff(breaks) - 1 + period > LONGEST_RUN)
    return list(zip((breaks[long] + 1).tolist(), (breaks[long + 1] + period).tolist(), strict=True))


def _with_white_space(line: str, start: int, end: int) -> tuple[int, int]:
    while start > 0 and line[start - 1].isspace():
        start -= 1
    while end < len(line) and line[end].isspace():
        end += 1
    return start, end
