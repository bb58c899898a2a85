"""Links by lexicons that are learnt from pairs alone."""

import random

import pytest

from dragoman.alignment.lexicon import lexical_links
from dragoman.errors import CorpusError


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
    with pytest.raises(CorpusError, match="no pair has words on both sides"):
        lexical_links([([], ["x"])], 1)
