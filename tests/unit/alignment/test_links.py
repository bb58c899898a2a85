"""Alignment links from attention weights."""

import json

import numpy as np
import pytest

from dragoman.alignment.heads import AlignmentHead
from dragoman.alignment.links import TokenizedPair, links
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import ModelError
from dragoman.text.segmenting import first_words
from dragoman.text.words import Words
from tests.support.small_translator import copy_translator, random_translator


def head_with(weights: list[list[float]]) -> AttentionArrays:
    return AttentionArrays(np.array([[weights]], dtype=np.float32))


def pair(source: list[str], target: list[str]) -> TokenizedPair:
    return TokenizedPair(
        list(range(len(source))),
        list(range(len(target))),
        Words.from_tokens(source, only_spaces=True),
        Words.from_tokens(target, only_spaces=True),
    )


def test_a_target_word_is_linked_to_the_source_word_with_most_weight() -> None:
    """Weights of the two tokens of "lamp" are summed; the EOS of the source is no word."""
    arrays = head_with([[0.3, 0.0, 0.1, 0.6], [0.4, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.7]])
    words = pair(["▁the", "▁l", "amp"], ["▁die", "▁Lampe"])
    assert links(arrays, words, AlignmentHead(layer=0, head=0, from_input=False)) == [(0, 0), (1, 1)]
    # One row later, where the tokens are the input.
    assert links(arrays, words, AlignmentHead(layer=0, head=0, from_input=True)) == [(1, 0), (1, 1)]


def test_a_right_to_left_model_aligns_the_same_words() -> None:
    arrays = head_with([[0.1, 0.1, 0.7, 0.1], [0.5, 0.2, 0.2, 0.1], [0.2, 0.4, 0.3, 0.1], [0.1, 0.1, 0.1, 0.7]])
    target = ["pe", "▁Lam", "▁die"]
    source = ["▁lamp", "▁the", "▁now"]
    words = TokenizedPair(
        [1, 2, 3],
        [6, 5, 4],
        Words.from_tokens(source, only_spaces=True),
        Words.from_tokens(target, only_spaces=True, right_to_left=True),
        right_to_left=True,
    )
    # die: [0.2, 0.4, 0.3]; Lampe: the mean of the first two rows, [0.3, 0.15, 0.45].
    assert links(arrays, words, AlignmentHead(layer=0, head=0, from_input=False)) == [(1, 0), (2, 1)]
    # die: [0.1, 0.1, 0.1]; Lampe: [0.35, 0.3, 0.25].
    assert links(arrays, words, AlignmentHead(layer=0, head=0, from_input=True)) == [(0, 0), (0, 1)]


def test_a_missing_head_is_an_error() -> None:
    with pytest.raises(ModelError, match="the model has no layer 3, head 1"):
        links(head_with([[1.0, 0.0]] * 2), pair(["▁a"], ["▁b"]), AlignmentHead(layer=2, head=0, from_input=False))


FIRST = AlignmentHead(layer=0, head=0, from_input=True)


def test_translations_contain_their_alignment() -> None:
    translator = random_translator()
    lines = ["the lamp is on", "", "door"]
    plain = translator.translate(lines)
    aligned = translator.translate(lines, alignment=FIRST)
    assert [each.text for each in aligned] == [each.text for each in plain]
    assert [each.alignment for each in plain] == [None] * 3
    for line, each in zip(lines, aligned, strict=True):
        assert each.alignment is not None
        words = [word for word in each.text.split(" ") if word]
        assert [target for _, target in each.alignment] == list(range(len(words)))
        assert all(0 <= source < len(line.split()) for source, _ in each.alignment)
    assert aligned[1].alignment == ()


def test_words_of_later_segments_are_counted_from_the_beginning_of_the_line() -> None:
    translator, _ = copy_translator(max_source_tokens=8)
    line = "the lamp is on. the door is open. please wait now."
    [translation] = translator.translate([line], alignment=FIRST)
    assert translation.segments > 1
    assert translation.text == line
    assert translation.alignment is not None
    words = len(line.split())
    assert [target for _, target in translation.alignment] == list(range(words))
    sentence = [0] * 4 + [1] * 4 + [2] * 3
    assert all(sentence[source] == sentence[target] for source, target in translation.alignment)


def test_segments_without_a_space_between_them_share_a_word() -> None:
    assert first_words("one two. three", ["one two.", "three"]) == [0, 2]
    assert first_words("一。二 三。四", ["一。", "二 三。", "四"]) == [0, 0, 1]
    assert first_words("x", ["\ufffd", "\ufffd"]) == [0, 0]


def test_alignments_by_head_equal_those_of_align() -> None:
    translator = random_translator()
    pairs = [("the lamp is on", "the door"), ("wait", "wait now")]
    links_of_first = translator.align(pairs, FIRST)
    assert [links_by_head[FIRST] for links_by_head in translator.alignments_by_head(pairs)] == links_of_first
    # Plain integers, not those of NumPy, which JSON cannot represent.
    assert json.dumps(links_of_first)
