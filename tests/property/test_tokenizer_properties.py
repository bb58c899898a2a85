"""Encoding and decoding arbitrary text with the tokenizer."""

import functools

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.data.readers import Pair
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer

# Text of any characters, and text of characters that sentencepiece treats specially.
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
SPECIAL = st.text(alphabet="▁  \t\r\n\0ab<>s/\u2028\u2047\u2585\ufeff\U0010ffff", max_size=30)
LINES = st.lists(ANY | SPECIAL, max_size=5)


@functools.cache
def tokenizer(kind: str, *, right_to_left: bool = False) -> Tokenizer:
    text = [f"the {a} cat of {b} ▁ <s>" for a in ("big", "old", "red") for b in ("me", "you", "it")]
    pairs = [Pair(line, line.upper()) for line in text]
    return train_tokenizer(pairs, TokenizerConfig(kind=kind, vocabulary_size=330, right_to_left=right_to_left))  # type: ignore[arg-type]


@given(LINES, st.sampled_from(["unigram", "bpe", "word", "character", "byte"]))
@settings(deadline=None)
def test_round_trip(lines: list[str], kind: str) -> None:
    ids = tokenizer(kind).encode_source(lines)
    assert tokenizer(kind).decode_source(ids) == lines
    # The ids of a line do not depend on other lines.
    assert ids == [tokenizer(kind).encode_source([line])[0] for line in lines]


@given(LINES, st.sampled_from(["unigram", "bpe", "word", "character", "byte"]), st.integers(0, 2**63))
@settings(deadline=None, max_examples=50)
def test_sampled_segmentations_decode_to_the_same_text(lines: list[str], kind: str, seed: int) -> None:
    ids = tokenizer(kind).sample_target(lines, 0.1, seed)
    assert tokenizer(kind).decode_target(ids) == lines
    assert tokenizer(kind).sample_target(lines, 0.1, seed) == ids


@given(LINES, st.sampled_from(["unigram", "bpe", "word", "character", "byte"]), st.integers(0, 2**63))
@settings(deadline=None, max_examples=50)
def test_right_to_left_targets_have_the_same_tokens_in_reverse_order(lines: list[str], kind: str, seed: int) -> None:
    forward, backward = tokenizer(kind), tokenizer(kind, right_to_left=True)
    assert backward.encode_source(lines) == forward.encode_source(lines)
    assert backward.encode_target(lines) == [row[::-1] for row in forward.encode_target(lines)]
    assert backward.decode_target(backward.encode_target(lines)) == lines
    sampled = backward.sample_target(lines, 0.1, seed)
    assert sampled == [row[::-1] for row in forward.sample_target(lines, 0.1, seed)]
    assert backward.decode_target(sampled) == lines


KNOWN = {"the", "THE", "cat", "of"}
UNKNOWN = {"", "ca", "x", "▁", "the▁", "<s>"}


@given(st.lists(st.sampled_from(sorted(KNOWN | UNKNOWN)), max_size=8))
@settings(deadline=None)
def test_known_symbols_are_one_token_each(symbols: list[str]) -> None:
    word = tokenizer("word")
    line = " ".join(symbols)
    [ids] = word.encode_target([line])
    assert word.decode_target([ids]) == [line]
    spelled = set(word.target_bytes)
    tokens = sum(index not in spelled for index in ids)
    assert tokens <= sum(symbol in KNOWN for symbol in symbols)
    # A symbol that only spaces precede is also encoded as bytes, since decoding would remove its space.
    if not line.startswith(" "):
        assert tokens == sum(symbol in KNOWN for symbol in symbols)
