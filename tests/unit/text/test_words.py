"""Grouping of subword tokens into words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.text.words import Words, text_of
from tests.support.small_translator import tokenizer


@pytest.mark.parametrize(
    ("tokens", "texts"),
    [
        (["▁The", "▁l", "amp", ".", "</s>"], ("The", "lamp.", "</s>")),
        (["<s>", "▁l", "amp"], ("<s>", "lamp")),
        (["<s>", "l", "amp"], ("<s>", "lamp")),
        (["▁", "turn", "ed", "▁", "off"], ("turned", "off")),
        (["▁开", "灯", "▁on"], ("开", "灯", "on")),
        (["▁caf", "<0xC3>", "<0xA9>", "▁now"], ("café", "now")),
        (["a", "<0x20>", "b"], ("a", "b")),
        (["<0xFF>"], ("\ufffd",)),
        (["</s>"], ("</s>",)),
        ([], ()),
    ],
)
def test_a_word_ends_at_a_space_and_a_special_symbol_is_a_word(tokens: list[str], texts: tuple[str, ...]) -> None:
    assert Words.from_tokens(tokens).texts == texts


def test_with_only_spaces_chinese_text_is_one_word() -> None:
    assert Words.from_tokens(["▁开", "灯", "▁on"], only_spaces=True).texts == ("开灯", "on")


@given(st.text(alphabet="ab é灯.▁\u00a0", max_size=20))
def test_words_between_spaces_are_those_of_the_text(text: str) -> None:
    """The words do not depend on how the text is encoded, for example as bytes."""
    text = text.strip()
    tokens = tokenizer().source_texts(tokenizer().encode_source([text])[0])
    assert text_of(tokens) == text
    assert list(Words.from_tokens(tokens, only_spaces=True).texts) == [word for word in text.split(" ") if word]


@given(st.text(alphabet="ab é灯.▁\u00a0", max_size=20), st.booleans())
def test_from_right_to_left_the_words_are_the_same(text: str, only_spaces: bool) -> None:
    """The special symbols keep their positions: <s> is read first, </s> is generated last."""
    tokens = tokenizer().source_texts(tokenizer().encode_source([text.strip(" ")])[0])
    forward = Words.from_tokens(tokens, only_spaces=only_spaces).texts
    weights = np.arange(len(tokens) + 1, dtype=np.float64)
    for before, after in ((["<s>"], []), ([], ["</s>"])):
        row = [*before, *tokens[::-1], *after]
        backward = Words.from_tokens(row, only_spaces=only_spaces, right_to_left=True)
        assert backward.texts == (*before, *forward[::-1], *after)
        ends = [*backward.starts, len(row)][1:]
        assert [text_of(row[i:j][::-1]) for i, j in zip(backward.starts, ends, strict=True)] == list(backward.texts)
        assert backward.sum(weights, 0).sum() == weights.sum()


def test_weights_are_summed_over_the_columns_and_averaged_over_the_rows_of_a_word() -> None:
    words = Words.from_tokens(["▁l", "amp", "</s>"])
    weights = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.0, 1.0, 0.0]])
    merged = words.mean(words.sum(weights, -1), -2)
    np.testing.assert_allclose(merged, [[(0.75 + 0.2) / 2, (0.25 + 0.8) / 2], [1.0, 0.0]])
    np.testing.assert_allclose(merged.sum(-1), 1.0)
