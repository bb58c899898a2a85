"""Encoding and decoding arbitrary running text."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dragoman.text.subwords import BOS, EOS, PAD, UNK
from dragoman.text.vocabulary import LONGEST_PART, divide
from tests.support.small_texts import KINDS, Kind, small_vocabulary

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
SPECIAL = st.text(alphabet="▁  \t\r\n\n\0abthe<>s/\u2028\u2047\u2585\ufeff\U0010ffff", max_size=40)
# Text with lines that are longer than a part.
PIECES = ["a", " ", "\n", "ü", "x" * LONGEST_PART, "y " * 400, "z" * 700]
LONG = st.lists(st.sampled_from(PIECES), max_size=6).map("".join)
TEXT = ANY | SPECIAL | LONG


@given(st.lists(TEXT, max_size=4), st.sampled_from(KINDS))
@example(["", " ", "\n", "  \n\n a\0▁", "\ttab\r\n"], "unigram")
@settings(deadline=None)
def test_decoding_returns_the_encoded_text(texts: list[str], kind: Kind) -> None:
    vocabulary = small_vocabulary(kind)
    rows = vocabulary.encode(texts)
    assert vocabulary.decode(rows) == texts
    for text, row in zip(texts, rows, strict=True):
        assert vocabulary.encode([text], workers=2) == [row]
        assert not {PAD, UNK, BOS, EOS} & set(row)
        assert b"".join(vocabulary.token_bytes[index] for index in row) == text.encode()


@given(TEXT, st.sampled_from(KINDS), st.data())
@settings(deadline=None)
def test_a_text_that_is_encoded_in_blocks_has_the_same_ids(text: str, kind: Kind, data: st.DataObject) -> None:
    vocabulary = small_vocabulary(kind)
    row: list[int] = []
    rest, position = "", 0
    while position < len(text):
        size = data.draw(st.integers(1, len(text) - position))
        rest += text[position : position + size]
        position += size
        cut = vocabulary.final(rest)
        row += vocabulary.encode([rest[:cut]])[0]
        rest = rest[cut:]
        assert len(rest) <= LONGEST_PART
    assert row + vocabulary.encode([rest])[0] == vocabulary.encode([text])[0]


@given(TEXT)
def test_parts_are_limited_and_together_are_the_text(text: str) -> None:
    parts = divide(text)
    assert "".join(parts) == text
    assert all(0 < len(part) <= LONGEST_PART and "\n" not in part[:-1] for part in parts)


@given(st.lists(st.integers(0, 250), max_size=30), st.sampled_from(KINDS), st.integers(1, 5))
@settings(deadline=None)
def test_a_streamed_decoder_returns_what_decode_returns(row: list[int], kind: Kind, size: int) -> None:
    vocabulary = small_vocabulary(kind)
    decoder = vocabulary.decoder()
    texts = [decoder.feed(row[start : start + size]) for start in range(0, len(row), size)]
    assert "".join([*texts, decoder.end()]) == vocabulary.decode([row])[0]


@given(ANY, st.sampled_from(KINDS))
@settings(deadline=None)
def test_a_streamed_decoder_returns_only_text_that_is_certain(text: str, kind: Kind) -> None:
    vocabulary = small_vocabulary(kind)
    decoder = vocabulary.decoder()
    before = ""
    for index in vocabulary.encode([text])[0]:
        before += decoder.feed([index])
        assert text.startswith(before)
    assert before == text
