"""Translation of HTML: which text is translated, and where the tags go."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from dragoman.evaluation.alignment import Link
from dragoman.serving.html_tags import Tag, with_tags
from dragoman.serving.html_tokens import Token, characters_of, html_tokens
from dragoman.serving.pieces import Piece, SplitText
from dragoman.serving.sentences import sentence_spans

# Elements that mark a part of a sentence. All others separate texts.
INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins label mark nobr q rp rt ruby s small span strike "
    "strong sub sup time tt u wbr img".split()
)
# Elements whose content is not a text in a language.
UNTRANSLATED = frozenset(
    "script style pre code kbd samp var textarea xmp iframe noembed noframes math svg template object".split()
)
VOID = frozenset("area base br col embed hr img input link meta param source track wbr".split())
# An opening tag that ends the innermost open element if that is one of these.
_ENDS = {
    **dict.fromkeys(("li",), frozenset(("li", "p"))),
    **dict.fromkeys(("dt", "dd"), frozenset(("dt", "dd", "p"))),
    **dict.fromkeys(("td", "th"), frozenset(("td", "th", "p"))),
    "tr": frozenset(("td", "th", "tr")),
    "option": frozenset(("option",)),
    **dict.fromkeys(
        "address article aside blockquote div dl fieldset footer form h1 h2 h3 h4 h5 h6 header hr main nav ol p pre "
        "section table ul".split(),
        frozenset(("p",)),
    ),
}
_HTML_SPACE = dict.fromkeys(map(ord, "\t\n\r\f"), " ")


class _OpenElements:
    """The elements that are open, and whether their content is translated.

    Each token takes constant time on average, so that deep nesting and end tags without start tags cost nothing.
    """

    def __init__(self) -> None:
        self._stack: list[tuple[str, bool]] = []
        self._names: Counter[str] = Counter()

    @property
    def translated(self) -> bool:
        return self._stack[-1][1] if self._stack else True

    def start(self, token: Token) -> None:
        if token.name in VOID:
            return
        if self._stack and self._stack[-1][0] in _ENDS.get(token.name, ()):
            self._pop()
        translated = self.translated
        attributes = dict(reversed(token.attributes))
        if "translate" in attributes:
            translated = attributes["translate"].strip().lower() != "no"
        if "notranslate" in attributes.get("class", "").split() or token.name in UNTRANSLATED:
            translated = False
        self._stack.append((token.name, translated))
        self._names[token.name] += 1

    def end(self, token: Token) -> None:
        if self._names[token.name]:
            while self._pop() != token.name:
                pass

    def _pop(self) -> str:
        name, _ = self._stack.pop()
        self._names[name] -= 1
        return name


@dataclass
class _Run:
    """Text that is translated together, with the inline tags in it.

    Attributes:
        text: its characters, in parts.
        offsets: offset of each character in the HTML.
        ends: offset in the HTML at which each character ends.
        tags: the inline tags, with the number of characters before each.
    """

    text: list[str] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    tags: list[tuple[int, Tag]] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class HtmlPiece(Piece):
    """A sentence in HTML.

    A sentence that the translation does not change is written as it was: its character references and white space.

    Attributes:
        tags: the tags inside the sentence, with their offsets in `source`.
    """

    tags: tuple[tuple[int, Tag], ...] = ()

    @property
    def needs_alignment(self) -> bool:
        """See `Piece`."""
        return bool(self.tags)

    def rendered(self, translation: str, links: Sequence[Link] | None) -> str:
        """See `Piece`."""
        return self.written if translation == self.source else with_tags(self.source, self.tags, translation, links)


def split_html(text: str, language: str, *, split_sentences: bool) -> SplitText:
    """Split HTML into the sentences of its texts. The sentences and what stands between them form the HTML."""
    pieces: list[Piece] = []
    end = 0
    for run in _runs(text):
        characters = "".join(run.text)
        # In HTML, a line feed is a space.
        spans = sentence_spans(characters.translate(_HTML_SPACE), language, split_sentences=split_sentences)
        tag_index = 0
        for span in spans:
            start = max(end, run.offsets[span.start])
            before = text[end:start]
            end = max(start, run.ends[span.end - 1])
            while tag_index < len(run.tags) and run.tags[tag_index][0] <= span.start:
                tag_index += 1
            first_tag = tag_index
            while tag_index < len(run.tags) and run.tags[tag_index][0] < span.end:
                tag_index += 1
            inner = run.tags[first_tag:tag_index]
            source, offsets = _collapsed(characters[span.start : span.end], [at - span.start for at, _ in inner])
            tags = tuple((at, tag) for at, (_, tag) in zip(offsets, inner, strict=True))
            pieces.append(HtmlPiece(before, source, text[start:end], tags))
    return SplitText(pieces, text[end:])


def visible_text(text: str) -> str:
    """Return the text of HTML that is translated, for the detection of its language."""
    return "\n".join("".join(run.text) for run in _runs(text))


def _collapsed(text: str, offsets: Sequence[int]) -> tuple[str, list[int]]:
    """Return a text with one space for each stretch of white space of HTML, and where offsets in the text are in it."""
    parts: list[str] = []
    moved = []
    begin = length = 0
    ends_in_space = True
    for offset in [*offsets, len(text)]:
        part = re.sub(" {2,}", " ", text[begin:offset].translate(_HTML_SPACE))
        part = part[1:] if ends_in_space and part.startswith(" ") else part
        parts.append(part)
        length += len(part)
        moved.append(length)
        ends_in_space = part.endswith(" ") if part else ends_in_space
        begin = offset
    return "".join(parts), moved[:-1]


def _runs(text: str) -> Iterator[_Run]:
    open_elements = _OpenElements()
    run = _Run()
    offset = 0
    for token in html_tokens(text):
        was_translated = open_elements.translated
        if token.kind == "start":
            open_elements.start(token)
        elif token.kind == "end":
            open_elements.end(token)
        translated = was_translated and open_elements.translated
        if token.kind == "text" and translated:
            characters, offsets = characters_of(token.raw)
            run.text.append(characters)
            run.offsets += [offset + start for start in offsets[:-1]]
            run.ends += _ends(offsets, offset)
        elif translated and (token.kind == "other" or token.name in INLINE):
            run.tags.append((len(run.offsets), Tag(token.raw, token.kind, token.name, token.name in VOID)))
        else:
            if run.text:
                yield run
            run = _Run()
        offset += len(token.raw)
    if run.text:
        yield run


def _ends(offsets: list[int], begin: int) -> list[int]:
    """Return where each character ends: where the next character with another offset begins."""
    ends = [0] * (len(offsets) - 1)
    end = offsets[-1]
    for index in range(len(ends) - 1, -1, -1):
        if index + 1 < len(offsets) and offsets[index + 1] != offsets[index]:
            end = offsets[index + 1]
        ends[index] = begin + end
    return ends
