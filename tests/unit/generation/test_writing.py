"""Text that is written in pieces: stop strings and incomplete characters."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import SettingsError
from dragoman.generation.writing import StopFinder, Writer
from tests.support.small_language import vocabulary

texts = st.text("abc", max_size=12)
stop_strings = st.lists(st.text("abc", min_size=1, max_size=4), max_size=3)


def before_stop(text: str, stops: list[str]) -> tuple[str, bool]:
    """Return the text before the first stop string, found character by character."""
    for end in range(len(text) + 1):
        endings = [stop for stop in stops if text[:end].endswith(stop)]
        if endings:
            return text[: end - max(map(len, endings))], True
    return text, False


@given(texts, stop_strings, st.lists(st.integers(0, 12), max_size=4))
def test_the_first_stop_string_is_found_however_the_text_is_divided(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    expected, stopped = before_stop(text, stops)
    finder, written = StopFinder(stops), ""
    for start, end in pairwise([0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]):
        written += finder.feed(text[start:end])
        # What is written is never taken back.
        assert expected.startswith(written)
        if finder.found:
            break
    assert finder.found == stopped
    assert written + ("" if stopped else finder.end()) == expected


@given(st.text(max_size=8), stop_strings)
def test_text_is_held_only_while_a_stop_string_may_follow(text: str, stops: list[str]) -> None:
    finder = StopFinder(stops)
    written = finder.feed(text)
    if not finder.found:
        held = finder.end()
        assert written + held == text
        assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
        # A longer end of the text is not the beginning of a stop string.
        longer = [text[start:] for start in range(len(written))]
        assert not any(stop.startswith(end) for end in longer for stop in stops)


def test_incomplete_characters_are_held() -> None:
    row = vocabulary("byte").encode(["né 😀"])[0]
    writer = Writer(vocabulary("byte").decoder(), [])
    assert [writer.write(token) for token in row] == ["n", "", "é", " ", "", "", "", "😀"]
    assert writer.end() == ""
    assert writer.text == "né 😀"


def test_the_rest_of_an_incomplete_character_is_written_at_the_end() -> None:
    row = vocabulary("byte").encode(["😀"])[0][:2]
    writer = Writer(vocabulary("byte").decoder(), ["never"])
    assert [writer.write(token) for token in row] == ["", ""]
    assert writer.end() == "\ufffd"


def test_a_stop_string_may_begin_and_end_inside_tokens() -> None:
    kind = vocabulary("unigram")
    text = "JULIET: But, soft! what light through yonder window breaks?"
    rows = kind.encode([text])[0]
    assert len(rows) < len(text)
    writer = Writer(kind.decoder(), ["ght thr"])
    pieces = []
    for token in rows:
        pieces.append(writer.write(token))
        if writer.stopped:
            break
    assert "".join(pieces) == "JULIET: But, soft! what li"
    assert writer.end() == ""


@pytest.mark.parametrize(
    ("stops", "message"),
    [([""], "a stop string is empty"), (["x" * 1001], "more than 1,000 characters"), (["x"] * 101, "at most 100")],
)
def test_stop_strings_out_of_range_are_rejected(stops: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        StopFinder(stops)
