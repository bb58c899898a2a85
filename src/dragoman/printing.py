"""Escaping of untrusted text before it is printed: file names, lines of a corpus, content of damaged files."""

import sys
from unicodedata import category

# Unicode categories: control characters, format characters (some change the direction of writing), surrogates, line
# and paragraph separators.
_ESCAPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Format characters in ordinary text: soft hyphen, zero-width non-joiner and joiner (Persian, Hindi, emoji).
_KEPT = "\u00ad\u200c\u200d"


def printable(text: object) -> str:
    r"""Return `str(text)` on one line, with control and format characters escaped so that a terminal shows them.

    Example:
        >>> print(printable("\x1b[31mred"))
        \x1b[31mred
    """
    text = str(text)
    if text.isprintable():
        return text
    return "".join(map(_printable, text))


def printable_text(text: str) -> str:
    r"""Return a text with its control and format characters escaped, except line feeds and tabs.

    Example:
        >>> print(printable_text("one\n\x1b[2Jtwo"))
        one
        \x1b[2Jtwo
    """
    if text.isprintable():
        return text
    return "".join(character if character in "\n\t" else _printable(character) for character in text)


def print_message(message: object) -> None:
    """Print a message on standard error as one line, prefixed with "dragoman:"; untrusted characters are escaped."""
    print(f"dragoman: {printable(message)}", file=sys.stderr)


def _printable(character: str) -> str:
    if category(character) in _ESCAPED and character not in _KEPT:
        return character.encode("unicode_escape").decode("ascii")
    return character
