"""Probability of each word of an output."""

import math
from collections.abc import Sequence

import pytest

from dragoman.search.results import Hypothesis
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer
from dragoman.translation.word_probabilities import joined_word_probabilities, word_probabilities


def tokenizer(*, right_to_left: bool = False) -> Tokenizer:
    pairs = [("a red lamp", "eine rote Lampe"), ("the open door", "die offene Tür")] * 8
    return train_tokenizer(pairs, TokenizerConfig(vocabulary_size=330, right_to_left=right_to_left))


def hypothesis(tokens: Sequence[int], probabilities: Sequence[float]) -> Hypothesis:
    totals = [sum(map(math.log, probabilities[: end + 1])) for end in range(len(tokens))]
    return Hypothesis(tokens=tuple(tokens), log_probability=-1.0, score=-1.0, finished=True, totals=tuple(totals))


@pytest.mark.parametrize("right_to_left", [False, True])
def test_the_probability_of_a_word_is_the_product_of_those_of_its_tokens(right_to_left: bool) -> None:
    made = tokenizer(right_to_left=right_to_left)
    [tokens] = made.encode_target(["eine offene Lampe"])
    probabilities = [0.9 - 0.05 * index for index in range(len(tokens))]
    words = word_probabilities(hypothesis(tokens, probabilities), made)
    assert words is not None
    assert len(words) == 3
    assert math.prod(words) == pytest.approx(math.prod(probabilities))
    # One improbable token makes its word improbable, wherever the model begins.
    texts = made.target_texts(tokens)
    last = max(index for index, text in enumerate(texts) if text.startswith("▁"))
    probabilities = [0.1 if index == last else 1.0 for index in range(len(tokens))]
    assert word_probabilities(hypothesis(tokens, probabilities), made) == pytest.approx(
        (0.1, 1.0, 1.0) if right_to_left else (1.0, 1.0, 0.1)
    )


def test_unknown_and_empty_outputs() -> None:
    made = tokenizer()
    [tokens] = made.encode_target(["die Tür"])
    unknown = Hypothesis(tokens=tuple(tokens), log_probability=-1.0, score=-1.0, finished=True)
    assert word_probabilities(unknown, made) is None
    assert word_probabilities(hypothesis([], []), made) == ()


def test_segments_are_joined() -> None:
    joined = joined_word_probabilities
    assert joined("", []) == ()
    assert joined("die Tür 123 Lampe", [("die Tür", (0.5, 0.25)), ("123", ()), ("Lampe", (0.125,))]) == (
        *(0.5, 0.25, 1.0, 0.125),
    )
    # Two segments without a space between them share a word.
    assert joined("rote Lampe", [("rote Lam", (0.5, 0.5)), ("pe", (0.5,))]) == (0.5, 0.25)
    assert joined("die Tür", [("die", (0.5,)), ("Tür", None)]) is None
    # More probabilities than the line has words, as with a character whose bytes were divided among segments.
    assert joined("Tür", [("T\ufffd", (0.5, 0.5)), ("r", (0.5,))]) == (0.25,)
