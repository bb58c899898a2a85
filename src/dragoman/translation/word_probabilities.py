"""Probability of each word of an output: where the model was uncertain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from dragoman.search.results import Hypothesis
from dragoman.text.segmenting import first_words
from dragoman.text.tokenizer import Tokenizer
from dragoman.text.words import Words


def word_probabilities(hypothesis: Hypothesis, tokenizer: Tokenizer) -> tuple[float, ...] | None:
    """Return the probability of each word of an output, given the source and what was written before it.

    It is the product of the probabilities of the word's tokens. Words are separated by spaces, and in the order of the
    text.

    Args:
        hypothesis: the output.
        tokenizer: the tokenizer of the model.

    Returns:
        The probabilities; None if the search does not record those of tokens.
    """
    if len(hypothesis.totals) != len(hypothesis.tokens):
        return None
    if not hypothesis.tokens:
        return ()
    words = Words.from_tokens(
        tokenizer.target_texts(hypothesis.tokens), only_spaces=True, right_to_left=tokenizer.right_to_left
    )
    last = [start - 1 for start in (*words.starts[1:], words.tokens)]
    totals = [0.0, *(hypothesis.totals[token] for token in last)]
    probabilities = tuple(math.exp(min(0.0, after - before)) for before, after in pairwise(totals))
    return probabilities[::-1] if tokenizer.right_to_left else probabilities


def joined_word_probabilities(
    text: str, segments: Sequence[tuple[str, Sequence[float] | None]]
) -> tuple[float, ...] | None:
    """Return the probability of each word of a line from those of its segments.

    Args:
        text: the translation of the line.
        segments: the text of each segment, and the probabilities of its words; () for a segment that was copied.

    Returns:
        The probabilities, 1 for what was copied; None if those of a segment are not known.
    """
    joined = [1.0] * len(text.split(" ")) if text else []
    starts = first_words(text, [segment.strip() for segment, _ in segments])
    for start, (_, probabilities) in zip(starts, segments, strict=True):
        if probabilities is None:
            return None
        # Two segments without a space between them share a word.
        for word, probability in zip(range(start, len(joined)), probabilities, strict=False):
            joined[word] *= probability
    return tuple(joined)
