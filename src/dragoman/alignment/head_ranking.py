"""Which head's attention aligns words best: every head is compared with a reference, or with what lexicons agree on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.alignment.heads import AlignmentHead
from dragoman.alignment.lexicon import lexical_links
from dragoman.alignment.reference import LengthLimit, check_fit
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import (
    AlignmentMetrics,
    Link,
    Reference,
    alignment_metrics,
    diagonal,
    partial_alignment_metrics,
    words,
)

# Fewer links say little about a head.
FEWEST_LINKS = 30


class Aligner(LengthLimit, Protocol):
    """What aligns pairs by every head of a model; a `Translator` does."""

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        """Return the links of each pair by every head."""


@dataclass(frozen=True, kw_only=True)
class HeadRanking:
    """How well the heads of a model align words.

    scores         of every head, the lowest error rate first
    diagonal       of joining words at the same place of their sentences, which a head must beat
    pairs          the number of pairs on which the heads were compared
    links          the number of links they were compared with
    lexicon_pairs  the number of pairs from which the lexicons were learnt; None: compared with a reference
    """

    scores: dict[AlignmentHead, AlignmentMetrics]
    diagonal: AlignmentMetrics
    pairs: int
    links: int
    lexicon_pairs: int | None = None

    @property
    def best(self) -> AlignmentHead:
        """The head with the lowest error rate."""
        return next(iter(self.scores))


def rank_heads_by_reference(
    aligner: Aligner, pairs: Sequence[Pair], references: Sequence[Reference], *, where: str = "the corpus"
) -> HeadRanking:
    """Compare every head with a reference of the same pairs; `where` names the corpus in messages.

    Raises CorpusError when there are no pairs, or one is longer than the model takes.
    """
    _check_any(pairs, where)
    check_fit(aligner, pairs, where)
    known = sum(len(each.sure) for each in references)
    return _study(aligner, pairs, known, lambda found: alignment_metrics(found, references))


def rank_heads_by_lexicons(
    aligner: Aligner, pairs: Sequence[Pair], *, compared: int, where: str = "the corpus"
) -> HeadRanking:
    """Compare every head with the links that two lexicons agree on, which are learnt from the pairs.

    Pairs longer than the model takes are left out.

    compared  the number of pairs on which the heads are compared, the first ones
    where     names the corpus in messages

    Raises CorpusError when there are no pairs, or the lexicons agree on too few links.
    """
    pairs = [pair for pair, fits in zip(pairs, aligner.fits(pairs), strict=True) if fits]
    some = pairs[: max(0, compared)]
    _check_any(some, where)
    agreed = lexical_links([(words(pair.source), words(pair.target)) for pair in pairs], len(some))
    known = sum(map(len, agreed))
    if known < FEWEST_LINKS:
        raise CorpusError(
            f"{where} has only {known} words whose translation is fairly sure, too few to judge a "
            f"head by ({FEWEST_LINKS} are needed): give more pairs, or a reference with --reference"
        )
    return _study(
        aligner, some, known, lambda found: partial_alignment_metrics(found, agreed), lexicon_pairs=len(pairs)
    )


def _study(
    aligner: Aligner,
    pairs: Sequence[Pair],
    known: int,
    score: Callable[[Sequence[list[Link]]], AlignmentMetrics],
    *,
    lexicon_pairs: int | None = None,
) -> HeadRanking:
    found: dict[AlignmentHead, list[list[Link]]] = {}
    for by_head in aligner.alignments_by_head(pairs):
        for head, links in by_head.items():
            found.setdefault(head, []).append(links)
    scores = {head: score(links) for head, links in found.items()}
    return HeadRanking(
        scores=dict(sorted(scores.items(), key=lambda each: each[1].error_rate)),
        diagonal=score([diagonal(len(words(pair.source)), len(words(pair.target))) for pair in pairs]),
        pairs=len(pairs),
        links=known,
        lexicon_pairs=lexicon_pairs,
    )


def _check_any(pairs: Sequence[Pair], where: str) -> None:
    if not pairs:
        raise CorpusError(f"{where}: no pairs to align")
