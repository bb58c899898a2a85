"""Text that no model has learned: the stretches of a long line that are copied."""

import random
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text import copying
from dragoman.text.copying import LONGEST_PERIOD, LONGEST_RUN, LONGEST_WORD, copied_stretches
from dragoman.text.segmenting import first_words, join, segment

PROSE = "Turn the lamp in the kitchen off, please; the door (left) is open... Is it? 3.14 — 1,000,000!"


def copied(line: str) -> list[str]:
    return [line[start:end] for start, end in copied_stretches(line)]


@pytest.mark.parametrize(
    "text",
    [
        "a" * 65,
        "ha" * 40,
        "12345678" * 9,
        "." * 65,
        ". " * 33 + ".",
        "💡👍🏽" * 30,
        "\u0301" * 70,
        "\ufffd" * 70,
        "_-" * 40,
        "|---|:--:|~~~" * 8,
        "".join(random.Random(0).choices("ACGT", k=257)),
        "https://example.org/?" + "&".join(f"key{i}=value{i * i}" for i in range(40)),
        "字" * 65,
        "\u200b" * 65,
    ],
)
def test_text_that_no_model_has_learned_is_copied_with_the_white_space_around_it(text: str) -> None:
    assert copied(text) == [text]
    assert copied(f"{PROSE}x  {text}\t {PROSE}") == [f"  {text}\t "]


@pytest.mark.parametrize(
    "text",
    [
        PROSE * 20,
        "?!",
        "—" * 64,
        "a" * 64,
        "ha" * 32,
        "a very " * 9,
        "one two three " * 100,  # the period is longer than 8 characters
        "Donaudampfschifffahrtsgesellschaftskapitän " * 20,
        "".join(chr(random.Random(0).randrange(0x4E00, 0x9FFF) + i % 50) for i in range(2000)),
        "".join(random.Random(0).choices("อาหารไทยดี", k=2000)),
        random.Random(0).randbytes(2000).hex(" "),
    ],
)
def test_ordinary_text_is_not_copied(text: str) -> None:
    assert copied(text) == []


def is_copied(text: str) -> bool:
    """The rule for a whole stretch, in a direct but slow form."""
    repeats = any(text[period:] == text[:-period] for period in range(1, LONGEST_PERIOD + 1))
    no_letters = not any(letter.isalnum() for letter in text)
    no_space = all("!" <= letter <= "~" for letter in text)
    return (len(text) > LONGEST_RUN and (repeats or no_letters)) or (len(text) > LONGEST_WORD and no_space)


parts_of_lines = (
    st.text(max_size=30)
    | st.text(alphabet="ab .!é字\u0301💡_", max_size=80)
    | st.builds(lambda text, times: text * times, st.text(min_size=1, max_size=10), st.integers(1, 80))
    | st.builds(lambda size, seed: random.Random(seed).randbytes(size).hex(), st.integers(100, 140), st.integers(0, 9))
)
long_lines = st.lists(parts_of_lines, max_size=6).map("".join)


@settings(deadline=None)
@given(long_lines, st.integers(1, 200))
@example("a" * 64 + "b" * 65 + "a" * 64, 1)
def test_all_stretches_that_fulfil_the_rule_are_returned_and_no_others(line: str, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "_BLOCK", block)
        assert_rule(line)


def assert_rule(line: str) -> None:
    spans = copied_stretches(line)
    assert all(start < end for start, end in spans)
    assert all(before[1] < after[0] for before, after in pairwise(spans))
    inside: set[int] = set()
    for size in (LONGEST_RUN + 1, LONGEST_WORD + 1):
        for start in range(len(line) - size + 1):
            if is_copied(line[start : start + size]):
                inside.update(range(start, start + size))
    returned = {index for start, end in spans for index in range(start, end)}
    assert inside <= returned
    assert all(line[index].isspace() for index in returned - inside)
    # A second application, to the text between the stretches and to each stretch, returns nothing new.
    ends = [0, *(index for span in spans for index in span), len(line)]
    for start, end in list(pairwise(ends))[::2]:
        assert copied_stretches(line[start:end]) == []
    for start, end in spans:
        assert copied_stretches(line[start:end]) == [(0, end - start)]


def in_characters(lines: list[str]) -> list[list[int]]:
    return [list(map(ord, line)) for line in lines]


@settings(deadline=None)
@given(long_lines.map(str.strip), st.integers(1, 40))
def test_the_joined_segments_equal_the_line(line: str, limit: int) -> None:
    segments = list(segment(line, limit, lambda lines: in_characters(list(lines))))
    assert all(len(part.ids) <= limit for part in segments)
    assert all(bool(part.ids) != bool(part.copied) for part in segments)
    texts = [part.copied or "".join(map(chr, part.ids)) for part in segments]
    joined = join(texts, {index for index, part in enumerate(segments) if part.copied})
    assert joined.split() == line.split() or "".join(joined.split()) == "".join(line.split())
    assert joined.count("💡") == line.count("💡")
    assert sum(part.size for part in segments) <= len(line)


def test_segments_of_a_line_of_any_length_are_computed_lazily() -> None:
    encoded = 0

    def encode(lines: object) -> list[list[int]]:
        nonlocal encoded
        assert isinstance(lines, list)
        encoded += sum(map(len, lines))
        return in_characters(lines)

    line = "".join(chr(0x4E00 + i * i % 20_000) for i in range(3_000_000))
    segments = segment(line, 50, encode)
    assert len(next(segments).ids) <= 50
    assert encoded < 50_000
    sentences = segment("Turn on lamp number 7 now. " * 40_000, 50, encode)
    encoded = 0
    assert len(next(sentences).ids) <= 50
    assert encoded < 50_000


def test_hostile_lines_are_searched_for_stretches_in_linear_time() -> None:
    # With quadratic time, this would take hours.
    for text in (
        ". ",
        "a",
        "!" * 64 + "a",
        "a" * 64 + "b",
        "~" * 256 + " ",
        "a\u0301",
        "\u3000x",
        "abcdefgh" * 8 + "!",
    ):
        line = text * (1_000_000 // len(text))
        spans = copied_stretches(line)
        assert all(before[1] < after[0] for before, after in pairwise(spans))


def test_the_words_of_segments_are_counted_in_linear_time() -> None:
    segments = [f"word{i} and {i}." for i in range(100_000)]
    assert first_words(" ".join(segments), segments) == list(range(0, 300_000, 3))
