"""HTML as tokens, in time proportional to its length, whatever it contains.

A subset of the tokenizer of the HTML standard (section 13.2.5), which keeps each token as it is written. The parsers
of lxml and selectolax return trees, from which the text cannot be written back byte for byte; that of the standard
library needs a time that is quadratic in the length of hostile HTML in Python 3.11.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

# Elements whose content has no tags. Character references count in "title" and "textarea" only.
RAW_TEXT = frozenset("script style xmp iframe noembed noframes title textarea".split())

_NAME_END = re.compile(r"[\s/>]", re.ASCII)
# Possessive quantifiers: an attribute that matches is never matched again in another way.
_ATTRIBUTE = re.compile(
    r"""[\s/]*+(?P<name>[^\s/>][^\s/>=]*+)(?:\s*+=\s*+"""
    r"""(?:"(?P<double>[^"]*+)"|'(?P<single>[^']*+)'|(?P<bare>[^\s>"'][^\s>]*+)|(?=>)|["'].*+))?+""",
    re.DOTALL | re.ASCII,
)
_TAG_END = re.compile(r"[\s/]*+>", re.ASCII)
_REFERENCE = re.compile(r"&(?:#[0-9]++|#[xX][0-9a-fA-F]++|[0-9a-zA-Z]++);?+")


@dataclass(frozen=True)
class Token:
    """A token of HTML.

    Attributes:
        kind: "text", "start" (an opening tag), "end" (a closing tag), or "other": a comment, a declaration, a tag that
            the text ends in.
        raw: the token as it is written.
        name: name of a tag, in lower case.
        attributes: attributes of an opening tag, of which only `translate` and `class` are needed.
    """

    kind: Literal["text", "start", "end", "other"]
    raw: str
    name: str = ""
    attributes: tuple[tuple[str, str], ...] = ()


def html_tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of HTML; their `raw` together are the text."""
    position = begin = 0
    while True:
        position = text.find("<", position)
        if position < 0:
            break
        token = _markup_at(text, position)
        if token is None:
            position += 1
            continue
        if begin < position:
            yield Token("text", text[begin:position])
        yield token
        begin = position = position + len(token.raw)
        if token.kind == "start" and token.name in RAW_TEXT:
            # The end tag has letters of ASCII only, which IGNORECASE alone does not require ("ſ" matches "s").
            closing = re.compile(rf"</{token.name}(?=[\s/>])", re.IGNORECASE | re.ASCII)
            match = closing.search(text, position)
            end = match.start() if match else len(text)
            if begin < end:
                yield Token("text", text[begin:end])
            begin = position = end
    if begin < len(text):
        yield Token("text", text[begin:])


def _markup_at(text: str, position: int) -> Token | None:
    """Return the token that begins with "<" at a position; None if it is a character of a text."""
    following = text[position + 1 : position + 2]
    if following in ("!", "?"):
        is_comment = text.startswith("<!--", position)
        # "<!-->" and "<!--->" are comments.
        end = text.find("-->", position + 2) if is_comment else text.find(">", position)
        return Token("other", text[position : end + (3 if is_comment else 1)] if end >= 0 else text[position:])
    closes = following == "/"
    start = position + 1 + closes
    first = text[start : start + 1]
    if not (first.isascii() and first.isalpha()):
        if not closes or not first:
            return None
        end = text.find(">", start)
        return Token("other", text[position : end + 1] if end >= 0 else text[position:])
    name_end = _NAME_END.search(text, start)
    if name_end is None:
        return Token("other", text[position:])
    name = text[start : name_end.start()].lower()
    attributes = []
    end = name_end.start()
    while not (closed := _TAG_END.match(text, end)):
        match = _ATTRIBUTE.match(text, end)
        if match is None:
            # The text ends in the tag.
            return Token("other", text[position:])
        value = match["double"] or match["single"] or match["bare"] or ""
        attributes.append((match["name"].lower(), html.unescape(value)))
        end = match.end()
    return Token("end" if closes else "start", text[position : closed.end()], name, tuple(attributes))


def characters_of(raw: str) -> tuple[str, list[int]]:
    """Return a text without character references, and where each of its characters begins in `raw`.

    The list has one more entry, the length of `raw`.
    """
    text: list[str] = []
    offsets: list[int] = []
    position = 0
    for match in _REFERENCE.finditer(raw):
        text.append(raw[position : match.start()])
        offsets += range(position, match.start())
        character = html.unescape(match[0])
        text.append(character)
        offsets += [match.start()] * len(character)
        position = match.end()
    text.append(raw[position:])
    offsets += range(position, len(raw) + 1)
    return "".join(text), offsets
