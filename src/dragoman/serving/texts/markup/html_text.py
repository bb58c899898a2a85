"""The texts of HTML: which text is translated, and which tags are inside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from dragoman.serving.texts.markup.html_tokens import Token, characters_of, html_tokens
from dragoman.serving.texts.markup.inline_tags import Tag
from dragoman.serving.texts.markup.marked_text import Run
from dragoman.serving.texts.markup.tag_options import TagOptions

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


class _OpenElements:
    """The elements that are open, and whether their content is translated.

    Each token takes constant time on average, so that deep nesting and end tags without start tags cost nothing.

    Args:
        ignored: names of elements whose content is not translated, beside `UNTRANSLATED`.
    """

    def __init__(self, ignored: frozenset[str]) -> None:
        self._untranslated = UNTRANSLATED | ignored
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
        if "notranslate" in attributes.get("class", "").split() or token.name in self._untranslated:
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


def html_runs(text: str, tags: TagOptions) -> Iterator[Run]:
    """Yield the texts of HTML that are translated."""
    open_elements = _OpenElements(tags.ignored)
    run = Run()
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
            run.add_text(characters, offsets, offset)
        elif translated and (token.kind == "other" or token.name in INLINE):
            run.add_tag(Tag(token.raw, token.kind, token.name, token.name in VOID))
        else:
            if run.text:
                yield run
            run = Run()
        offset += len(token.raw)
    if run.text:
        yield run
