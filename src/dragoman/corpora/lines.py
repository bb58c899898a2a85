"""Conversion of texts to one line of a TSV file."""

import re

# Line breaks, tabs and spaces. The no-break space is not included: French orthography needs it.
_WHITE = re.compile(r"[ \t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# Control characters and lone surrogates, which JSON can represent and UTF-8 cannot.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def collapse_white_space(text: str) -> str:
    """Return the text with every run of white space replaced by one space, and without spaces at its ends."""
    return _WHITE.sub(" ", text).strip(" ")


def has_unprintable(text: str) -> bool:
    """Return True if the text contains control characters or lone surrogates."""
    return _UNPRINTABLE.search(text) is not None
