"""The head that aligns best is found, with a reference and without."""

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

GOOD = AlignmentHead(layer=1, head=0, read=True)
WORSE = AlignmentHead(layer=0, head=1, read=False)
WORST = AlignmentHead(layer=0, head=0, read=False)
LONGEST = 6


class Heads:
    """Aligns words that are letters: one head knows that "a" is "A", one is wrong of the first word, one of all."""

    max_source_tokens = LONGEST

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [max(len(source.split()), len(target.split())) <= LONGEST for source, target in pairs]

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        assert all(self.fits(pairs))
        found = []
        for source, target in pairs:
            places = [source.split().index(word.lower()) for word in target.split()]
            wrong = [(place + 1) % len(places) for place in places]
            found.append(
                {
                    WORST: list(zip(wrong, range(len(places)), strict=True)),
                    WORSE: list(zip([wrong[0], *places[1:]], range(len(places)), strict=True)),
                    GOOD: list(zip(places, range(len(places)), strict=True)),
                }
            )
        return found


def corpus() -> list[Pair]:
    """Letters, and the same in capitals and in another order."""
    generator = random.Random(0)
    sentences = [generator.sample("abcdefgh", generator.randint(2, 5)) for _ in range(300)]
    return [Pair(" ".join(each), " ".join(generator.sample(each, len(each))).upper()) for each in sentences]


def check(study: HeadRanking) -> None:
    assert list(study.scores) == [GOOD, WORSE, WORST]
    assert study.best == GOOD
    assert study.scores[GOOD].error_rate == 0
    assert study.scores[GOOD].error_rate < study.scores[WORSE].error_rate < study.scores[WORST].error_rate
    assert 0.4 < study.diagonal.error_rate < 1


def test_with_lexicons() -> None:
    long = Pair("a " * 7, "A " * 7)
    pairs = [long, *corpus()]
    study = rank_heads_by_lexicons(Heads(), pairs, compared=20)
    check(study)
    assert (study.pairs, study.lexicon_pairs) == (20, 300)
    assert study.links == sum(len(pair.source.split()) for pair in corpus()[:20])


def test_with_a_reference() -> None:
    pairs = corpus()[:8]
    references = [
        Reference(frozenset(links), frozenset(links))
        for links in (by_head[GOOD] for by_head in Heads().alignments_by_head(pairs))
    ]
    study = rank_heads_by_reference(Heads(), pairs, references)
    check(study)
    assert (study.pairs, study.lexicon_pairs) == (8, None)
    assert study.links == sum(len(reference.sure) for reference in references)


def test_what_cannot_be_compared_is_refused() -> None:
    long = Pair("a " * 7, "A " * 7)
    for pairs, compared in (([], 5), ([long], 5), (corpus(), 0), (corpus(), -1)):
        with pytest.raises(CorpusError, match=r"x\.tsv: no pairs to align"):
            rank_heads_by_lexicons(Heads(), pairs, compared=compared, where="x.tsv")
    with pytest.raises(CorpusError, match="no pairs to align"):
        rank_heads_by_reference(Heads(), [], [])
    none = Reference(frozenset(), frozenset())
    with pytest.raises(CorpusError, match=r"x\.tsv: pair 2 has more than 6 subwords"):
        rank_heads_by_reference(Heads(), [corpus()[0], long], [none, none], where="x.tsv")
    with pytest.raises(CorpusError, match="too few to judge a head by"):
        rank_heads_by_lexicons(Heads(), corpus()[:3], compared=3)


def test_a_reference_is_read_with_its_pairs(tmp_path: Path) -> None:
    path = tmp_path / "gold.txt"
    path.write_text("0-0 1?1\n\n9-9\n")
    pairs = [Pair("a b", "A B"), Pair("a", "A")]
    first, second = read_reference_alignments(path, pairs, "of x.tsv")
    assert sorted(first.sure) == [(0, 0)]
    assert sorted(first.possible) == [(0, 0), (1, 1)]
    assert not second.possible
    with pytest.raises(CorpusError, match=r"has 3 lines for 4 pairs of x\.tsv"):
        read_reference_alignments(path, pairs * 2, "of x.tsv")
    with pytest.raises(
        CorpusError, match=r"gold\.txt:3: there is no link 9-9: the source has 2 words and the target 2"
    ):
        read_reference_alignments(path, [*pairs, pairs[0]], "of x.tsv")
