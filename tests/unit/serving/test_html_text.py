"""Translation of HTML."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.serving.lines import LineOptions, Pair
from dragoman.serving.texts.markup.html_tokens import html_tokens
from dragoman.serving.texts.markup.inline_tags import Tag, with_tags
from dragoman.translation.results import Translation
from tests.support.serving_texts import FunctionLines, identity_lines, translated, translation_of, upper_lines

_PARTS = st.sampled_from(
    [
        "<p>",
        "</p>",
        "<b>",
        "</b>",
        "<br/>",
        "<a href='x>y'>",
        "</a>",
        "&eacute;",
        "&amp",
        "&#0;",
        "Hello. ",
        "world",
        "<",
        ">",
        "\n  ",
        "<!-- c -->",
        "<!",
        "<script>",
        "</script>",
        "<pre>",
        "</pre>",
        '<i translate="no">',
        "</i>",
        "<img src=",
        "</",
        "<title>",
        "</TITLE >",
        "これは。",
        "\xa0",
        "\0",
        "\ud83d\ude00",
        '"',
        "'",
        "=",
    ]
)
_HTML = st.lists(_PARTS, max_size=25).map("".join) | st.text(alphabet="<>/!-ab \"'=&;\n.", max_size=60)


def upper(html: str) -> str:
    return translated(upper_lines(), html, format="html").text


@settings(deadline=None, max_examples=400)
@given(_HTML)
def test_identity_gives_the_html_back(html: str) -> None:
    assert translated(identity_lines(), html, format="html").text == html.replace("\ud83d\ude00", "😀")


@given(_HTML)
def test_tokens_are_the_html(html: str) -> None:
    assert "".join(token.raw for token in html_tokens(html)) == html


@settings(deadline=None)
@given(_HTML)
def test_tags_are_kept(html: str) -> None:
    html = html.replace("\ud83d\ude00", "😀")
    tags = sorted(token.raw for token in html_tokens(html) if token.kind in ("start", "end"))
    output = upper(html)
    # A translation adds no tag: its "<" is escaped.
    assert sorted(token.raw for token in html_tokens(output) if token.kind in ("start", "end")) == tags


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<p>One &amp; two.</p>\n<p>Three.</p>", "<p>ONE &amp; TWO.</p>\n<p>THREE.</p>"),
        ("<p>Use <code>ls -l</code> here</p>", "<p>USE <code>ls -l</code> HERE</p>"),
        ("<p>A <b>red</b> lamp.</p>", "<p>A <b>RED</b> LAMP.</p>"),
        ("Hello <b>wor</b>ld!", "HELLO <b>WOR</b>LD!"),
        ("Hello <b>world</b>!", "HELLO <b>WORLD</b>!"),
        ("<b>One. Two.</b> Three", "<b>ONE. TWO.</b> THREE"),
        ("x<script>if (a<b) c</script><style>p{}</style>y", "X<script>if (a<b) c</script><style>p{}</style>Y"),
        ('<p translate="no">no <b>no</b></p>yes', '<p translate="no">no <b>no</b></p>YES'),
        (
            '<div class="a notranslate">no <span translate=yes>yes</span></div>',
            '<div class="a notranslate">no <span translate=yes>YES</span></div>',
        ),
        ("<p translate=no>no<p>yes", "<p translate=no>no<p>YES"),
        ("one\n  line", "ONE LINE"),
        ("caf&eacute; au", "CAFÉ AU"),
        ("<title>a <b></title>", "<title>A &lt;B&gt;</title>"),
        ('<a title="x > y" href=z>w</a>', '<a title="x > y" href=z>W</a>'),
        ("a <!-- c --> b", "A <!-- c --> B"),
        ("</b>a</i></p>", "</b>A</i></p>"),
        ("1 < 2 b", "1 &lt; 2 B"),
    ],
)
def test_examples(html: str, expected: str) -> None:
    assert upper(html) == expected


def test_output_is_escaped() -> None:
    lines = FunctionLines(lambda pair, line, options: translation_of("<script>a & b"))
    assert translated(lines, "<p>a thing</p>", format="html").text == "<p>&lt;script&gt;a &amp; b</p>"


def test_elements_follow_the_links() -> None:
    def function(pair: Pair, line: str, options: LineOptions) -> Translation:
        assert options.alignment
        assert line == "the red house."
        return translation_of("la maison rouge.", alignment=((0, 0), (1, 2), (2, 1)))

    html = "the <b>red</b> <i>house</i>."
    assert translated(FunctionLines(function), html, format="html").text == "la <i>maison</i> <b>rouge.</b>"


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5))), st.sampled_from(["(y x) z, w", "a", "é!", "甲乙 丙"]))
def test_elements_stay_nested(links: list[tuple[int, int]], translation: str) -> None:
    lines = FunctionLines(lambda pair, line, options: translation_of(translation, alignment=tuple(links)))
    html = translated(lines, "(<b>one <i>two</i></b>) <u>th<s></s>ree, <q>four</q></u>!", format="html").text
    stack: list[str] = []
    for token in html_tokens(html):
        if token.kind == "start":
            stack.append(token.name)
        elif token.kind == "end":
            assert stack.pop() == token.name
    assert stack == []
    assert "".join(token.raw for token in html_tokens(html) if token.kind == "text") == translation


def test_elements_that_would_overlap_are_placed_in_proportion() -> None:
    tags = [(0, Tag("<b>", "start", "b", False)), (3, Tag("</b>", "end", "b", False))]
    tags += [(4, Tag("<i>", "start", "i", False)), (7, Tag("</i>", "end", "i", False))]
    assert with_tags("one two", tags, "eins zwei drei", [(0, 0), (0, 2), (1, 1)]) == "<b>eins zwei</b> <i>drei</i>"


@pytest.mark.parametrize(
    "unit",
    [
        "<a ",
        "<",
        "</",
        "<!--",
        "<!",
        "&",
        "&#",
        "<script>",
        "<b>",
        "<a b='",
        "<a b=",
        "<a/",
        "<?",
        "</a ",
        '<a "',
        "<title>",
        "</b><i>",
        "w <b>w</b> ",
        "<p translate=no>",
        "<b>x</i>",
        "&amp",
        "= ",
        "<x y=z",
        "a\n<i>",
    ],
)
def test_hostile_html_takes_little_time(unit: str) -> None:
    html = (unit * 50_000)[:50_000]
    started = time.process_time()
    assert translated(identity_lines(), html, format="html").text == html
    # Quadratic parsers take more than 10 s.
    assert time.process_time() - started < 5
    upper(html)


def test_deep_nesting() -> None:
    html = "<div><b>" * 10_000 + "x" + "</b></div>" * 10_000
    assert upper(html) == html.replace("x", "X")
