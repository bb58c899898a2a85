"""The texts of XML: which text is translated, and which tags are inside it.

The outline of XML is found by its text: an element separates texts, unless it is inside an element that directly
contains text. So the elements that surround paragraphs separate them, and those inside a paragraph mark a part of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from dragoman.evaluation.alignment import Link
from dragoman.serving.texts.markup.inline_tags import Tag
from dragoman.serving.texts.markup.marked_text import MarkupPiece, Run
from dragoman.serving.texts.markup.tag_options import TagOptions
from dragoman.serving.texts.markup.xml_tokens import XmlToken, xml_tokens

# Characters that XML cannot represent, even as references.
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class _XmlPiece(MarkupPiece):
    """A sentence of XML."""

    def rendered(self, translation: str, links: Sequence[Link] | None) -> str:
        """See `Piece`."""
        return super().rendered(_INVALID.sub("\ufffd", translation), links)


class _CdataPiece(MarkupPiece):
    """A sentence in a CDATA section, where only "]]>" has a meaning."""

    def rendered(self, translation: str, links: Sequence[Link] | None) -> str:
        """See `Piece`."""
        if translation == self.source:
            return self.written
        return _INVALID.sub("\ufffd", translation).replace("]]>", "]]]]><![CDATA[>")


def xml_runs(text: str, tags: TagOptions) -> Iterator[Run]:
    """Yield the texts of XML that are translated.

    Inside a text, an ignored element is one tag, which contains what is inside the element.

    Raises:
        RequestError: as `xml_tokens`.
    """
    run = Run(piece_type=_XmlPiece)
    offset = 0
    for token, separates in _with_separation(text, tags):
        if separates:
            if run.text:
                yield run
            begins_cdata = token.kind == "cdata" and run.piece_type is not _CdataPiece
            run = Run(piece_type=_CdataPiece if begins_cdata else _XmlPiece)
        elif token.kind == "text":
            size = len(token.raw)
            starts = range(size) if token.characters == token.raw else [0] * len(token.characters)
            run.add_text(token.characters, [*starts, size], offset)
        else:
            kind = token.kind if token.kind in ("start", "end") else "other"
            run.add_tag(Tag(token.raw, kind, token.name, void=kind == "other"))
        offset += len(token.raw)
    if run.text:
        yield run


def _with_separation(text: str, tags: TagOptions) -> Iterator[tuple[XmlToken, bool]]:
    """Yield the tokens of XML, and whether each separates texts; an ignored element is one token of kind "other"."""
    tokens = xml_tokens(text)
    depth = 0
    raw: list[str] = []
    for token, separates in zip(tokens, _separating(tokens, tags), strict=True):
        if not depth and not (token.kind == "start" and token.name in tags.ignored):
            yield token, separates
            continue
        raw.append(token.raw)
        depth += (token.kind == "start") - (token.kind == "end")
        if not depth:
            yield XmlToken("other", "".join(raw)), separates
            raw.clear()


def _separating(tokens: Sequence[XmlToken], tags: TagOptions) -> list[bool]:
    """Return whether each token separates texts."""
    with_text = _elements_with_text(tokens)
    separating = []
    # For every open element: whether it separates texts, and whether its content is inside a text.
    stack = [(False, -1 in with_text)]
    for index, token in enumerate(tokens):
        separates = token.kind == "cdata"
        if token.kind == "end":
            separates, _ = stack.pop()
        elif token.kind in ("start", "empty"):
            in_text = stack[-1][1]
            by_outline = tags.outline and not in_text and token.name not in tags.non_splitting
            separates = by_outline or token.name in tags.splitting
            if token.kind == "start":
                stack.append((separates, (in_text and not separates) or index in with_text))
        separating.append(separates)
    return separating


def _elements_with_text(tokens: Sequence[XmlToken]) -> set[int]:
    """Return the indices of the opening tags of the elements that directly contain text; -1 for text in no element."""
    open_elements = [-1]
    with_text = set()
    for index, token in enumerate(tokens):
        if token.kind == "start":
            open_elements.append(index)
        elif token.kind == "end":
            open_elements.pop()
        elif token.kind == "text" and not token.characters.isspace():
            with_text.add(open_elements[-1])
    return with_text
