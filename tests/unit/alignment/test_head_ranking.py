"""Ranking of heads, with reference alignments and with lexicons."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.alignment.head_ranking import HeadRanking, rank_heads_by_lexicons, rank_heads_by_reference
from dragoman.alignment.heads import AlignmentHead
from dragoman.alignment.reference import read_reference_alignments
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import Link, Reference

GOOD = AlignmentHead(layer=1, head=0, from_input=True)
WORSE = AlignmentHead(layer=0, head=1, from_input=False)
WORST = AlignmentHead(layer=0, head=0, from_input=False)
LONGEST = 6


class Heads:
    """An aligner of words that are letters.

    Head GOOD links "a" to "A", WORSE is wrong for the first word, and WORST for all words.
    """

    max_source_tokens = LONGEST

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [max(len(source.split()), len(target.split())) <= LONGEST for source, target in pairs]

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        assert all(self.fits(pairs))
        links = []
        for source, target in pairs:
            positions = [source.split().index(word.lower()) for word in target.split()]
            wrong = [(position + 1) % len(positions) for position in positions]
            links.append(
                {
                    WORST: list(zip(wrong, range(len(positions)), strict=True)),
                    WORSE: list(zip([wrong[0], *positions[1:]], range(len(positions)), strict=True)),
                    GOOD: list(zip(positions, range(len(positions)), strict=True)),
                }
            )
        return links


def corpus() -> list[Pair]:
    """Return sentences of letters; the translation has them in capitals and in random order."""
    generator = random.Random(0)
    sentences = [generator.sample("abcdefgh", generator.randint(2, 5)) for _ in range(300)]
    return [Pair(" ".join(each), " ".join(generator.sample(each, len(each))).upper()) for each in sentences]


def check(ranking: HeadRanking) -> None:
    assert list(ranking.metrics) == [GOOD, WORSE, WORST]
    assert ranking.best == GOOD
    assert ranking.metrics[GOOD].error_rate == 0
    assert ranking.metrics[GOOD].error_rate < ranking.metrics[WORSE].error_rate < ranking.metrics[WORST].error_rate
    assert 0.4 < ranking.diagonal.error_rate < 1


def test_ranking_by_lexicons() -> None:
    long = Pair("a " * 7, "A " * 7)
    pairs = [long, *corpus()]
    ranking = rank_heads_by_lexicons(Heads(), pairs, compared=20)
    check(ranking)
    assert (ranking.pairs, ranking.lexicon_pairs) == (20, 300)
    assert ranking.links == sum(len(pair.source.split()) for pair in corpus()[:20])


def test_ranking_by_reference() -> None:
    pairs = corpus()[:8]
    references = [
        Reference(frozenset(links), frozenset(links))
        for links in (by_head[GOOD] for by_head in Heads().alignments_by_head(pairs))
    ]
    ranking = rank_heads_by_reference(Heads(), pairs, references)
    check(ranking)
    assert (ranking.pairs, ranking.lexicon_pairs) == (8, None)
    assert ranking.links == sum(len(reference.sure) for reference in references)


def test_unusable_pairs_are_an_error() -> None:
    long = Pair("a " * 7, "A " * 7)
    for pairs, compared in (([], 5), ([long], 5), (corpus(), 0), (corpus(), -1)):
        with pytest.raises(CorpusError, match=r"x\.tsv: no pairs to align"):
            rank_heads_by_lexicons(Heads(), pairs, compared=compared, where="x.tsv")
    with pytest.raises(CorpusError, match="no pairs to align"):
        rank_heads_by_reference(Heads(), [], [])
    none = Reference(frozenset(), frozenset())
    with pytest.raises(CorpusError, match=r"x\.tsv: pair 2 has more than 6 subwords"):
        rank_heads_by_reference(Heads(), [corpus()[0], long], [none, none], where="x.tsv")
    with pytest.raises(CorpusError, match="too few to rank heads"):
        rank_heads_by_lexicons(Heads(), corpus()[:3], compared=3)


def test_reference_alignments_are_checked_against_their_pairs(tmp_path: Path) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("0-0 1?1\n\n9-9\n")
    pairs = [Pair("a b", "A B"), Pair("a", "A")]
    first, second = read_reference_alignments(path, pairs, "x.tsv")
    assert sorted(first.sure) == [(0, 0)]
    assert sorted(first.possible) == [(0, 0), (1, 1)]
    assert not second.possible
    with pytest.raises(CorpusError, match=r"has 3 lines for 4 pairs of x\.tsv"):
        read_reference_alignments(path, pairs * 2, "x.tsv")
    with pytest.raises(
        CorpusError, match=r"gold\.txt:3: the link 9-9 is out of range: the source has 2 words and the target 2"
    ):
        read_reference_alignments(path, [*pairs, pairs[0]], "x.tsv")
