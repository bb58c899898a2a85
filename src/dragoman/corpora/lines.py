"""Texts that fit on one line of a TSV file."""

import re

# All that breaks a line, and tabs and spaces. Not the no-break space, which French spelling needs.
_WHITE = re.compile(r"[ \t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# Control characters, and halves of surrogate pairs, which JSON can spell and UTF-8 cannot.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def collapse_white_space(text: str) -> str:
    """`text` with every run of white space turned into one space, none at its ends."""
    return _WHITE.sub(" ", text).strip(" ")


def has_unprintable(text: str) -> bool:
    """Whether control characters or halves of surrogate pairs are in `text`."""
    return _UNPRINTABLE.search(text) is not None
