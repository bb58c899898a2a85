"""Alignment links by lexicons learned from pairs."""

import random

import pytest

from dragoman.alignment.lexicon import lexical_links
from dragoman.errors import CorpusError


def test_lexicons_of_both_directions_agree_on_translations() -> None:
    """The target words are shifted letters, in random order."""
    generator = random.Random(0)
    sources = [generator.sample("abcdefgh", generator.randint(1, 5)) for _ in range(300)]
    orders = [generator.sample(range(len(source)), len(source)) for source in sources]
    pairs = [
        (source, [chr(ord(source[position]) + 10).upper() for position in order])
        for source, order in zip(sources, orders, strict=True)
    ]
    links = lexical_links([*pairs, ([], ["x"]), (["y"], [])], 100)
    assert links == [frozenset((s, t) for t, s in enumerate(order)) for order in orders[:100]]
    assert lexical_links([*pairs[:5], ([], ["x"])], 6)[5] == frozenset()
    with pytest.raises(CorpusError, match="no pair has words on both sides"):
        lexical_links([([], ["x"])], 1)
