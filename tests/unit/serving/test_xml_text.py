"""Translation of XML."""

import time
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.markup.tag_options import TagOptions
from dragoman.serving.texts.markup.xml_tokens import XmlToken, xml_tokens
from dragoman.translation.results import Translation
from tests.support.serving_texts import FunctionLines, identity_lines, translated, translation_of, upper_lines

_NAMES = st.sampled_from(["a", "b", "par", "x", "w:t", "é", "A.b-c"])
_ATTRIBUTES = st.sampled_from(["", ' id="1"', " a='>'", ' b = ">&lt;\'" ', ' c="\n"', ' xml:lang="en" d=\'"\''])
_LEAVES = st.sampled_from(
    [
        *("Hello. ", "world", " ", "\n  ", "\r\n", "これは。", "!", "(", "\xa0", "😀", "]]", '"'),
        *("&amp;", "&lt;", "&#65;", "&#x1F600;", "&quot;", "&gt;"),
        *("<!-- a <b> -->", "<?p a > b?>", "<![CDATA[One <b> & two. ]]>", "<![CDATA[]]>"),
    ]
)
_XML = st.recursive(
    _LEAVES | st.builds(lambda name, attributes: f"<{name}{attributes}/>", _NAMES, _ATTRIBUTES),
    lambda inner: st.builds(
        lambda name, attributes, content: f"<{name}{attributes}>{''.join(content)}</{name}>",
        _NAMES,
        _ATTRIBUTES,
        st.lists(inner, max_size=4),
    ),
    max_leaves=25,
)
_FRAGMENTS = st.builds(
    lambda declaration, parts: declaration + "".join(parts),
    st.sampled_from(["", "", "", '<?xml version="1.0" encoding="latin-1"?>\n']),
    st.lists(_XML, max_size=6),
)
_SETS = st.frozensets(_NAMES, max_size=3)
_OPTIONS = st.builds(TagOptions, ignored=_SETS, splitting=_SETS, non_splitting=_SETS, outline=st.booleans())


def upper(xml: str, **options: object) -> str:
    return translated(upper_lines(), xml, format="xml", tags=TagOptions(**options)).text  # type: ignore[arg-type]


def tags_of(tokens: list[XmlToken]) -> Counter[str]:
    return Counter(token.raw for token in tokens if token.kind in ("start", "end", "empty"))


def ignored_elements(tokens: list[XmlToken], names: frozenset[str]) -> Counter[str]:
    """Return the ignored elements that are in no other ignored element, as they are written."""
    elements = []
    depth = begin = 0
    for index, token in enumerate(tokens):
        if depth or (token.kind == "start" and token.name in names):
            begin = begin if depth else index
            depth += (token.kind == "start") - (token.kind == "end")
            if not depth:
                elements.append("".join(each.raw for each in tokens[begin : index + 1]))
    return Counter(elements)


@settings(deadline=None, max_examples=300)
@given(_FRAGMENTS, _OPTIONS)
def test_identity_gives_the_xml_back(xml: str, tags: TagOptions) -> None:
    assert "".join(token.raw for token in xml_tokens(xml)) == xml
    assert translated(identity_lines(), xml, format="xml", tags=tags).text == xml


@settings(deadline=None, max_examples=300)
@given(
    _FRAGMENTS,
    _OPTIONS,
    st.sampled_from(["upper", "ja & <b> <x/>", "zwei drei.", "a", "甲乙]]>丙", "\x01 \uffff"]),
    st.none() | st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6).map(tuple),
)
def test_what_is_kept(xml: str, tags: TagOptions, translation: str, links: tuple[tuple[int, int], ...] | None) -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        return translation_of(line.upper() if translation == "upper" else translation, alignment=links)

    output = translated(FunctionLines(function), xml, format="xml", tags=tags).text
    before, after = xml_tokens(xml), xml_tokens(output)
    assert tags_of(after) == tags_of(before)
    assert ignored_elements(after, tags.ignored) == ignored_elements(before, tags.ignored)
    others = [token.raw for token in before if token.kind == "other"]
    assert Counter(token.raw for token in after if token.kind == "other") == Counter(others)


DOCUMENT = "<document>\n  <title>A title</title>\n  <par>One. <b>Two</b> three.</par>\n</document>\n"


@pytest.mark.parametrize(
    ("xml", "options", "expected"),
    [
        ("Press <b>Continue</b> to go.", {}, "PRESS <b>CONTINUE</b> TO GO."),
        (DOCUMENT, {}, "<document>\n  <title>A TITLE</title>\n  <par>ONE. <b>TWO</b> THREE.</par>\n</document>\n"),
        ("Open <x>the Door</x> now", {"ignored": frozenset("x")}, "OPEN <x>the Door</x> NOW"),
        ("<x>no</x><p>yes</p>", {"ignored": frozenset("x")}, "<x>no</x><p>YES</p>"),
        ("to <x><y>no <x>no</x></y> no</x>", {"ignored": frozenset("x")}, "TO <x><y>no <x>no</x></y> no</x>"),
        ('Hi <x id="3"></x>, a.', {"ignored": frozenset("x")}, 'HI <x id="3"></x>, A.'),
        ("a <x/> <y/> b", {}, "A <x/> <y/> B"),
        ("wo<x/>rd", {}, "WO<x/>RD"),
        ('a <b c=">" d=\'"\'>b</b>', {}, 'A <b c=">" d=\'"\'>B</b>'),
        ("a <!-- <b> --> b<?c d?>", {}, "A <!-- <b> --> B<?c d?>"),
        ("<p><![CDATA[a <b> & b]]></p>", {}, "<p><![CDATA[A <B> & B]]></p>"),
        ("a &amp; &#98;\n c", {}, "A &amp; B C"),
        (
            '<?xml version="1.0"?><w:p xmlns:w="u"><w:t>a</w:t></w:p>',
            {},
            '<?xml version="1.0"?><w:p xmlns:w="u"><w:t>A</w:t></w:p>',
        ),
    ],
)
def test_examples(xml: str, options: dict[str, object], expected: str) -> None:
    assert upper(xml, **options) == expected


@pytest.mark.parametrize(
    ("xml", "options", "lines"),
    [
        ("<par>The firm was</par><par> alone.</par>", {}, ["The firm was", "alone."]),
        ("<par>The firm was</par><par> alone.</par>", {"non_splitting": {"par"}}, ["The firm was alone."]),
        ("<p>One <i>two</i> three</p>", {}, ["One two three"]),
        ("<p>One <i>two</i> three</p>", {"splitting": {"i"}}, ["One", "two", "three"]),
        ("<p>One</p><q>two</q>", {"outline": False}, ["Onetwo"]),
        ("<p>One</p><q>two</q>", {"outline": False, "splitting": {"q"}}, ["One", "two"]),
        ("<p>One</p><q>two</q>", {"splitting": {"p"}, "non_splitting": {"p", "q"}}, ["One", "two"]),
        ("<p>A list: <li>one <b>b</b></li><li>two</li></p>", {"splitting": {"li"}}, ["A list:", "one b", "two"]),
        ("<p>One<![CDATA[two]]>three</p>", {}, ["One", "two", "three"]),
    ],
)
def test_what_is_translated_together(xml: str, options: dict[str, object], lines: list[str]) -> None:
    upper_case = upper_lines()
    translated(upper_case, xml, format="xml", tags=TagOptions(**options))  # type: ignore[arg-type]
    assert upper_case.lines == lines


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        ("<a>", "mismatched tag, line 1, column 4"),
        ("one\n<a></b>", "mismatched tag, line 2, column 6"),
        ("</text><text>", "mismatched tag, line 1, column 1"),
        ("a</text>", "mismatched tag"),
        ("a & b", "not well-formed"),
        ("a < b", "not well-formed"),
        ("<a b=1/>", "not well-formed"),
        ('<a b="1" b="2"/>', "duplicate attribute"),
        ("caf&eacute;", "undefined entity, line 1, column 4"),
        ("\x01", "not well-formed"),
        ("<!DOCTYPE a><a/>", "a document type declaration is not accepted, line 1, column"),
        ('<?xml version="1.0"?>\n<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>', "declaration"),
        ('a<?xml version="1.0"?>', "not at start"),
        ("<!-- a -- b -->", "not well-formed"),
        ("<![CDATA[", "unclosed CDATA section"),
    ],
)
def test_malformed_xml(xml: str, message: str) -> None:
    for source in ("en", "auto"):
        with pytest.raises(RequestError, match=message) as error:
            translated(identity_lines(), xml, format="xml", source=source)
        assert error.value.status == 400
        assert error.value.message.startswith("Tag handling parsing failed, please check input: ")


@pytest.mark.parametrize(
    "unit", ["<a/>", "<a>x</a>", "a ", "&amp;", "<!-- -->", "<b>x</b> ", "<![CDATA[a]]>", "<x>y</x>", "a\n", "<?p?>"]
)
def test_long_xml_takes_little_time(unit: str) -> None:
    xml = unit * (50_000 // len(unit))
    started = time.process_time()
    tags = TagOptions(ignored=frozenset("x"))
    assert translated(identity_lines(), xml, format="xml", tags=tags).text == xml
    upper(xml)
    # Quadratic placement takes more than 20 s.
    assert time.process_time() - started < 10


def test_deep_nesting() -> None:
    xml = "<a><b>" * 5_000 + "x" + "</b></a>" * 5_000
    assert upper(xml) == xml.replace("x", "X")
    assert upper(xml, ignored=frozenset("b")) == xml
