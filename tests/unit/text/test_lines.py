"""Lines of text: decoding of any bytes, and cleaning."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import CorpusError
from dragoman.text.lines import clean_line, read_line, with_prefixes

BREAKS = "\0\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


@given(st.text() | st.text(alphabet="ab\u00a0\t \x1f\ufeff" + BREAKS))
def test_line_breaks_and_nul_become_spaces_and_the_ends_are_stripped(text: str) -> None:
    assert clean_line(text) == "".join(" " if letter in BREAKS else letter for letter in text).strip()


@given(st.text(alphabet="ab\u00a0\t \x1f" + BREAKS))
def test_a_clean_line_is_one_line_and_cleaning_does_not_change_it(text: str) -> None:
    cleaned = clean_line(text)
    assert len(cleaned.splitlines()) <= 1
    assert "\0" not in cleaned
    assert clean_line(cleaned) == cleaned


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("plain", ("plain", False)),
        (" für \r\n", ("für", False)),
        (b"f\xc3\xbcr\r", ("für", False)),
        (b"a\xffb", ("a\ufffdb", True)),
        ("a\udc00b", ("a\ufffdb", True)),
        ("", ("", False)),
        (b"\n", ("", False)),
    ],
)
def test_a_line_of_any_bytes_is_read_as_clean_text(line: str | bytes, read: tuple[str, bool]) -> None:
    assert read_line(line) == read


@pytest.mark.parametrize(("lines", "prefixes", "missing"), [(["a", "b"], ["c"], "prefix"), (["a"], ["b", "c"], "line")])
def test_each_line_needs_one_prefix(lines: list[str], prefixes: list[str], missing: str) -> None:
    with pytest.raises(CorpusError, match=f"{missing} 2 is missing"):
        list(with_prefixes(lines, prefixes))
