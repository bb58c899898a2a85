"""The places of tags inside a sentence of HTML or XML."""

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.serving.texts.markup.html_tokens import html_tokens
from dragoman.serving.texts.markup.tag_options import TagOptions
from dragoman.serving.texts.text_formats import split_text
from dragoman.serving.texts.translated import TextOptions

_WORDS = st.sampled_from(["lamp", "H2O", "a", "x1", "(door)", "end,", "no-one", "[1]", "42"])
_CONTENTS = st.recursive(
    _WORDS,
    lambda inner: st.builds(
        lambda name, before, parts, after: f"{before}<{name}>{''.join(parts)}</{name}>{after}",
        st.sampled_from("bisu"),
        st.sampled_from(["", "wo", "("]),
        st.lists(inner, min_size=1, max_size=2),
        st.sampled_from(["", "rd", ",", "1", "<img>", "<wbr>.txt"]),
    ),
    max_leaves=6,
)
_SENTENCES = st.lists(_CONTENTS, min_size=1, max_size=5).map(" ".join)
_TRANSLATION = st.lists(_WORDS | st.sampled_from(["Tür", "Wasser", "lampworld", "甲乙", "word1"]), min_size=1).map(
    " ".join
)


def placed(html: str, translation: str, links: tuple[tuple[int, int], ...] | None = None, **options: object) -> str:
    """Return HTML with this translation of its only sentence."""
    chosen = {"source": "en", "target": "de", "format": "html", "split_sentences": False} | options
    split = split_text(html, "en", TextOptions(**chosen))  # type: ignore[arg-type]
    [piece] = split.pieces
    return split.assembled([piece.rendered(translation, links)])


def text_of(html: str) -> str:
    return "".join(token.raw for token in html_tokens(html) if token.kind == "text")


@settings(deadline=None)
@given(_SENTENCES)
def test_tags_stay_at_words_that_the_translation_keeps(html: str) -> None:
    assert placed(html, " ".join(text_of(html).split()).upper()).lower() == html.lower()


@settings(deadline=None)
@given(_SENTENCES, _TRANSLATION, st.none() | st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4))).map(tuple))
def test_what_holds_for_any_translation(html: str, translation: str, links: tuple[tuple[int, int], ...] | None) -> None:
    output = placed(html, translation, links)
    # Beside a tag that stands alone, a space may be added.
    assert text_of(output).replace(" ", "") == translation.replace(" ", "")
    tokens = list(html_tokens(output))
    tags = [token for token in tokens if token.kind in ("start", "end")]
    assert Counter(tag.raw for tag in tags) == Counter(re.findall("<[^>]*>", html))
    stack: list[str] = []
    for tag in tags:
        if tag.kind == "end":
            assert stack.pop() == tag.name
        elif tag.name not in ("img", "wbr"):
            stack.append(tag.name)
    assert stack == []
    # A tag inside a word of the translation means that the source has that word.
    source_words = {word.strip("(),.") for word in text_of(html).lower().split()}
    for word in re.findall(r"\S+", re.sub("<[^>]*>", "\0", output)):
        if re.search("[a-zA-Zü]\0+[a-zA-Zü]", word):
            assert word.replace("\0", "").lower().strip("(),.") in source_words


@pytest.mark.parametrize(
    ("html", "translation", "expected"),
    [
        ("H<sub>2</sub>O is water.", "Wasser ist H2O.", "Wasser ist H<sub>2</sub>O."),
        ("H<sub>2</sub>O<sup>3</sup>", "h2o3", "h<sub>2</sub>o<sup>3</sup>"),
        ("Hello<sup>1</sup> world", "Hallo1 Welt", "Hallo<sup>1</sup> Welt"),
        ("note<a href=#1>[1]</a> here", "Notiz[1] hier", "Notiz<a href=#1>[1]</a> hier"),
        ("H<sub>2</sub>O", "Wasser", "<sub>Wasser</sub>"),
        ("Hello<img> world", "Hallo Welt", "Hallo<img> Welt"),
        ("wo<img>rd here", "Wort hier", "Wort<img> hier"),
        ("<p>lamp <b>door</b></p>", "window", "<p><b>window</b></p>"),
        ("<p><b>lamp</b> door</p>", "window", "<p><b>window</b></p>"),
        ("a lamp <i><b>door</b></i>", "window", "<i><b>window</b></i>"),
        ("one <b>two</b> <i>three</i> four", "ein zwei", "<b>ein</b> <i>zwei</i>"),
        ("<a>one</a>, <a>two</a>, <a>three</a>, <a>four</a>", "a b c d", "<a>a</a> <a>b</a> <a>c</a> <a>d</a>"),
    ],
)
def test_examples(html: str, translation: str, expected: str) -> None:
    assert placed(html, translation) == expected


@pytest.mark.parametrize(
    ("xml", "translation", "expected"),
    [
        ("Hello<x>{n}</x>, welcome", "HELLO, WELCOME", "HELLO<x>{n}</x>, WELCOME"),
        ("Hello<x>{n}</x>, welcome", "Hallo, willkommen", "Hallo<x>{n}</x>, willkommen"),
        ("file<x>%d</x>.txt", "Datei.txt", "Datei<x>%d</x>.txt"),
        ("the file<x>%d</x> is", "die Datei ist", "die Datei<x>%d</x> ist"),
    ],
)
def test_ignored_elements_beside_a_word(xml: str, translation: str, expected: str) -> None:
    assert placed(xml, translation, format="xml", tags=TagOptions(ignored=frozenset("x"))) == expected


def test_links_and_tags_inside_words() -> None:
    links = ((0, 2), (1, 1), (2, 0))
    assert placed("H<sub>2</sub>O is water.", "Wasser ist H2O.", links) == "Wasser ist H<sub>2</sub>O."


def test_many_tags_in_a_long_word_take_little_time() -> None:
    html = "<b>x</b>" * 6_000
    assert text_of(placed(html, "y" * 6_000)) == "y" * 6_000
