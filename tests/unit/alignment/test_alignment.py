"""Word alignments: Pharaoh pairs, error rates, and what a head says."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.alignment.links import AlignmentHead, TokenizedPair, alignment_heads, lexical_links, links
from dragoman.attention_page.arrays import AttentionArrays
from dragoman.errors import UserError
from dragoman.evaluation.alignment import (
    Reference,
    diagonal,
    pharaoh,
    read_references,
    score_alignments,
    score_partial,
    touching,
)
from dragoman.text.segmenting import first_words
from dragoman.text.words import Words
from tests.support.small_translator import copy_translator, random_translator


def test_error_rate_is_that_of_och_and_ney() -> None:
    """By hand: A = {0-0, 1-1, 2-2}, S = {0-0, 1-2}, P = S + {1-1}."""
    [reference] = read_references(["0-0 1-2 1?1"], "gold")
    scores = score_alignments([[(0, 0), (1, 1), (2, 2)]], [reference])
    assert scores.precision == pytest.approx(2 / 3)
    assert scores.recall == pytest.approx(1 / 2)
    assert scores.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))


@given(st.lists(st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5))), min_size=1, max_size=5))
def test_the_reference_itself_is_without_error(gold: list[frozenset[tuple[int, int]]]) -> None:
    scores = score_alignments(gold, [Reference(each, each) for each in gold])
    assert (scores.error_rate, scores.precision, scores.recall) == (0, 1, 1)
    written = read_references([pharaoh(each) for each in gold], "gold")
    assert [reference.sure for reference in written] == gold


@pytest.mark.parametrize("text", ["0-", "a-b", "0-0,1-1", "-1-0", "0-0-0", "1234567890-0"])
def test_what_is_no_link_is_named_with_its_line(text: str) -> None:
    with pytest.raises(UserError, match=r"gold\.txt:2: .* is no link"):
        read_references(["0-0", text], "gold.txt")


def test_the_diagonal_joins_both_ends() -> None:
    assert diagonal(5, 3) == [(0, 0), (2, 1), (4, 2)]
    assert diagonal(1, 2) == [(0, 0), (0, 1)]
    assert diagonal(0, 2) == []
    assert diagonal(3, 0) == []


def test_only_words_that_something_is_known_of_count() -> None:
    found, known = [(0, 0), (1, 2), (3, 3), (4, 1)], frozenset({(1, 2), (3, 1)})
    assert touching(found, known) == [(1, 2), (3, 3), (4, 1)]
    scores = score_partial([found], [known])
    assert scores.links == 3
    assert scores.recall == 1 / 2
    assert scores.precision == 1 / 3


def test_lexicons_agree_on_words_that_go_together() -> None:
    """A language of shifted letters, in another order of words."""
    generator = random.Random(0)
    sources = [generator.sample("abcdefgh", generator.randint(1, 5)) for _ in range(300)]
    orders = [generator.sample(range(len(source)), len(source)) for source in sources]
    pairs = [
        (source, [chr(ord(source[place]) + 10).upper() for place in order])
        for source, order in zip(sources, orders, strict=True)
    ]
    found = lexical_links([*pairs, ([], ["x"]), (["y"], [])], 100)
    assert found == [frozenset((s, t) for t, s in enumerate(order)) for order in orders[:100]]
    assert lexical_links([*pairs[:5], ([], ["x"])], 6)[5] == frozenset()
    with pytest.raises(UserError, match="no pair has words on both sides"):
        lexical_links([([], ["x"])], 1)


def head_with(weights: list[list[float]]) -> AttentionArrays:
    return AttentionArrays(np.array([[weights]], dtype=np.float32))


def pair(source: list[str], target: list[str]) -> TokenizedPair:
    return TokenizedPair(
        list(range(len(source))),
        list(range(len(target))),
        Words.of(source, only_spaces=True),
        Words.of(target, only_spaces=True),
    )


def test_a_target_word_is_joined_to_the_source_word_with_most_weight() -> None:
    """Weights to the two tokens of "lamp" are summed; the end of the source is no word."""
    arrays = head_with([[0.3, 0.0, 0.1, 0.6], [0.4, 0.3, 0.3, 0.0], [0.1, 0.1, 0.1, 0.7]])
    words = pair(["▁the", "▁l", "amp"], ["▁die", "▁Lampe"])
    assert links(arrays, words, AlignmentHead(layer=0, head=0, read=False)) == [(0, 0), (1, 1)]
    # One row later: where the tokens are read.
    assert links(arrays, words, AlignmentHead(layer=0, head=0, read=True)) == [(1, 0), (1, 1)]


def test_a_model_that_writes_from_the_right_aligns_the_same_words() -> None:
    arrays = head_with([[0.1, 0.1, 0.7, 0.1], [0.5, 0.2, 0.2, 0.1], [0.2, 0.4, 0.3, 0.1], [0.1, 0.1, 0.1, 0.7]])
    target = ["pe", "▁Lam", "▁die"]
    source = ["▁lamp", "▁the", "▁now"]
    words = TokenizedPair(
        [1, 2, 3],
        [6, 5, 4],
        Words.of(source, only_spaces=True),
        Words.of(target, only_spaces=True, right_to_left=True),
        right_to_left=True,
    )
    # die: [0.2, 0.4, 0.3]; Lampe: the mean of the first two rows, [0.3, 0.15, 0.45].
    assert links(arrays, words, AlignmentHead(layer=0, head=0, read=False)) == [(1, 0), (2, 1)]
    # die: [0.1, 0.1, 0.1]; Lampe: [0.35, 0.3, 0.25].
    assert links(arrays, words, AlignmentHead(layer=0, head=0, read=True)) == [(0, 0), (0, 1)]


def test_a_head_that_the_model_does_not_have_is_refused() -> None:
    with pytest.raises(UserError, match="the model has no layer 3, head 1"):
        links(head_with([[1.0, 0.0]] * 2), pair(["▁a"], ["▁b"]), AlignmentHead(layer=2, head=0, read=False))


def test_every_head_and_the_mean_can_be_chosen() -> None:
    arrays = AttentionArrays(np.zeros((2, 3, 4, 5), dtype=np.float32))
    choices = list(alignment_heads(arrays))
    assert len(choices) == len(set(choices)) == 2 * 4 * 2
    one_head = list(alignment_heads(head_with([[1.0]])))
    assert {choice.head for choice in one_head} == {0}


@pytest.mark.parametrize("head", [2, None])
def test_the_choice_is_kept_beside_the_model(tmp_path: Path, head: int | None) -> None:
    choice = AlignmentHead(layer=1, head=head, read=True)
    choice.save(tmp_path)
    assert AlignmentHead.load(tmp_path) == choice


@pytest.mark.parametrize("text", ["{", "[]", '{"layer": 1}', '{"layer": 1, "head": 0, "read": true, "x": 1}', "\0"])
def test_a_damaged_choice_is_an_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "alignment.json").write_text(text)
    with pytest.raises(UserError, match=r"alignment\.json"):
        AlignmentHead.load(tmp_path)


def test_without_a_choice_one_is_told_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="dragoman align"):
        AlignmentHead.load(tmp_path)


FIRST = AlignmentHead(layer=0, head=0, read=True)


def test_translations_carry_their_alignment() -> None:
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


def test_words_of_later_pieces_count_from_the_beginning_of_the_line() -> None:
    translator, _ = copy_translator(max_source_tokens=8)
    line = "the lamp is on. the door is open. please wait now."
    [translation] = translator.translate([line], alignment=FIRST)
    assert translation.pieces > 1
    assert translation.text == line
    assert translation.alignment is not None
    words = len(line.split())
    assert [target for _, target in translation.alignment] == list(range(words))
    sentence = [0] * 4 + [1] * 4 + [2] * 3
    assert all(sentence[source] == sentence[target] for source, target in translation.alignment)


def test_pieces_without_a_space_between_them_share_a_word() -> None:
    assert first_words("one two. three", ["one two.", "three"]) == [0, 2]
    assert first_words("一。二 三。四", ["一。", "二 三。", "四"]) == [0, 0, 1]
    assert first_words("x", ["\ufffd", "\ufffd"]) == [0, 0]


def test_the_same_numbers_by_head() -> None:
    translator = random_translator()
    pairs = [("the lamp is on", "the door"), ("wait", "wait now")]
    for found, expected in zip(translator.alignments_by_head(pairs), translator.align(pairs, FIRST), strict=True):
        assert found[FIRST] == expected
        assert json.dumps([list(link) for link in expected])
