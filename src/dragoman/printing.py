"""Text that did not come from us, made safe to print: names of files, lines of a corpus, what a damaged file says."""

import sys
from unicodedata import category

# Controls, formats (some turn the direction of writing), halves of surrogate pairs, ends of lines and paragraphs.
_ESCAPED = {"Cc", "Cf", "Cs", "Zl", "Zp"}
# Formats that ordinary text needs: soft hyphen, and what joins or separates letters in Persian, Hindi and emoji.
_KEPT = "\u00ad\u200c\u200d"


def printable(text: object) -> str:
    r"""Return `str(text)` on one line, with what a terminal would obey instead of showing escaped, as in "\x1b[31m"."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(map(_printable, text))


def complain(message: object) -> None:
    """Print a message of the program on standard error: one line, whatever it quotes."""
    print(f"dragoman: {printable(message)}", file=sys.stderr)


def _printable(character: str) -> str:
    if category(character) in _ESCAPED and character not in _KEPT:
        return character.encode("unicode_escape").decode("ascii")
    return character
