"""XML as tokens, each as it is written.

The parser is Expat, which reports where each token begins. A text is the content of an element: several elements and
text beside them are accepted. It has no DTD, so no entity can be defined and nothing outside the text is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from xml.parsers import expat

from dragoman.serving.request_error import RequestError

_BEGIN, _END = b"<text>", b"</text>"
_DECLARATION = re.compile(r"\A\ufeff?<\?xml[ \t\r\n][^?]*+\?>")
_Kind = Literal["text", "start", "end", "empty", "cdata", "other"]


@dataclass(frozen=True, slots=True)
class XmlToken:
    """A token of XML.

    Attributes:
        kind: "text", "start" (an opening tag), "end" (a closing tag), "empty" (the tag of an empty element), "cdata"
            (what begins or ends a CDATA section), or "other": a comment, a processing instruction, the declaration.
        raw: the token as it is written.
        name: name of a tag, with its prefix.
        characters: the characters of a text; the character that a reference stands for.
    """

    kind: _Kind
    raw: str
    name: str = ""
    characters: str = ""


def xml_tokens(text: str) -> list[XmlToken]:
    """Return the tokens of XML; their `raw` together are the text. References are tokens of their own.

    Args:
        text: the XML, without lone surrogates.

    Raises:
        RequestError: with status 400 if it is not well-formed, or has a DTD or a reference to an entity other than the
            five of XML.
    """
    declaration = _DECLARATION.match(text)
    start = declaration.end() if declaration else 0
    tokens = _Reader(text[:start], text[start:]).tokens()
    return [XmlToken("other", text[:start]), *tokens] if start else tokens


class _Reader:
    """Reads the tokens of one text.

    Args:
        declaration: what stands before the text.
        text: the text.
    """

    def __init__(self, declaration: str, text: str) -> None:
        self._declaration = declaration
        self._data = _BEGIN + text.encode() + _END
        self._parser = expat.ParserCreate("UTF-8")
        self._depth = 0
        # Where each token begins in the data, its kind, and its name or characters.
        self._events: list[tuple[int, _Kind, str]] = []
        parser = self._parser
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = lambda characters: self._add("text", characters)
        parser.StartCdataSectionHandler = lambda: self._add("cdata")
        parser.EndCdataSectionHandler = lambda: self._add("cdata")
        parser.CommentHandler = lambda _: self._add("other")
        parser.ProcessingInstructionHandler = lambda *_: self._add("other")

    def tokens(self) -> list[XmlToken]:
        try:
            self._parser.Parse(self._data, True)
        except expat.ExpatError as error:
            raise self._malformed(expat.errors.messages[error.code], self._parser.ErrorByteIndex) from None
        tokens: list[XmlToken] = []
        # The first and the last event are the tags around the text.
        events = self._events[1:]
        for (begin, kind, value), (end, _, _) in pairwise(events):
            raw = self._data[begin:end].decode()
            if kind == "text":
                # The parser turns carriage returns into line feeds.
                is_reference = raw.startswith("&") and raw != value
                tokens.append(XmlToken("text", raw, characters=value if is_reference else raw))
            elif kind == "end" and not raw:
                # An empty element is reported as a start and, after its tag, an end.
                tokens[-1] = XmlToken("empty", tokens[-1].raw, value)
            else:
                tokens.append(XmlToken(kind, raw, value))
        return tokens

    def _start(self, name: str, attributes: object) -> None:
        self._depth += 1
        self._add("start", name)

    def _end(self, name: str) -> None:
        self._depth -= 1
        position = self._parser.CurrentByteIndex
        if not self._depth and position != len(self._data) - len(_END):
            raise self._malformed("mismatched tag", position)
        self._add("end", name)

    def _add(self, kind: _Kind, value: str = "") -> None:
        self._events.append((self._parser.CurrentByteIndex, kind, value))

    def _malformed(self, reason: str, position: int) -> RequestError:
        # What is not closed is noticed at the tag after the text.
        end = min(position, len(self._data) - len(_END))
        before = self._declaration + self._data[len(_BEGIN) : end].decode(errors="ignore")
        if b"<!DOCTYPE" in self._data[position - 2 : position + 7]:
            reason = "a document type declaration is not accepted"
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return RequestError(
            400,
            f"Tag handling parsing failed, please check input: {reason}, line {line}, column {column}. Send XML that "
            "is well-formed, or HTML with tag_handling=html",
        )
