"""Ranking of the attention heads of a model by how well they align words.

Heads are compared with reference alignments, or with the links on which two lexicons agree.
"""

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

# With fewer links, error rates are too uncertain to rank heads.
FEWEST_LINKS = 30


class Aligner(LengthLimit, Protocol):
    """Interface of an aligner; `Translator` implements it."""

    def alignments_by_head(self, pairs: Sequence[tuple[str, str]]) -> list[dict[AlignmentHead, list[Link]]]:
        """Return the links of each pair according to every head."""


@dataclass(frozen=True, kw_only=True)
class HeadRanking:
    """The heads of a model, ranked by how well they align words.

    Attributes:
        metrics: metrics of every head, the lowest error rate first.
        diagonal: metrics of the baseline that links words at the same relative position of their sentences.
        pairs: number of pairs on which the heads were compared.
        links: number of links with which they were compared.
        lexicon_pairs: number of pairs from which the lexicons were learned; None: compared with reference alignments.
    """

    metrics: dict[AlignmentHead, AlignmentMetrics]
    diagonal: AlignmentMetrics
    pairs: int
    links: int
    lexicon_pairs: int | None = None

    @property
    def best(self) -> AlignmentHead:
        """The head with the lowest error rate."""
        return next(iter(self.metrics))


def rank_heads_by_reference(
    aligner: Aligner, pairs: Sequence[Pair], references: Sequence[Reference], *, where: str = "the corpus"
) -> HeadRanking:
    """Rank the heads by their agreement with reference alignments.

    Args:
        aligner: the model.
        pairs: the pairs to align.
        references: one per pair.
        where: name of the corpus in messages.

    Returns:
        The ranking.

    Raises:
        CorpusError: if there are no pairs, or one is too long for the model.
    """
    _check_any(pairs, where)
    check_fit(aligner, pairs, where)
    count = sum(len(reference.sure) for reference in references)
    return _rank(aligner, pairs, count, lambda links: alignment_metrics(links, references))


def rank_heads_by_lexicons(
    aligner: Aligner, pairs: Sequence[Pair], *, compared: int, where: str = "the corpus"
) -> HeadRanking:
    """Rank the heads by their agreement with lexicons learned from the pairs.

    A lexicon is learned in each direction; the heads are compared with the links on which both agree. Pairs that are
    too long for the model are left out.

    Args:
        aligner: the model.
        pairs: the pairs from which the lexicons are learned.
        compared: number of leading pairs on which the heads are compared.
        where: name of the corpus in messages.

    Returns:
        The ranking.

    Raises:
        CorpusError: if there are no pairs, or the lexicons agree on too few links.
    """
    pairs = [pair for pair, fits in zip(pairs, aligner.fits(pairs), strict=True) if fits]
    compared_pairs = pairs[: max(0, compared)]
    _check_any(compared_pairs, where)
    references = lexical_links([(words(pair.source), words(pair.target)) for pair in pairs], len(compared_pairs))
    count = sum(map(len, references))
    if count < FEWEST_LINKS:
        raise CorpusError(
            f"{where} has only {count} words whose translation is fairly certain, too few to rank heads "
            f"({FEWEST_LINKS} are needed): use more pairs, or reference alignments with --reference"
        )
    return _rank(
        aligner,
        compared_pairs,
        count,
        lambda links: partial_alignment_metrics(links, references),
        lexicon_pairs=len(pairs),
    )


def _rank(
    aligner: Aligner,
    pairs: Sequence[Pair],
    reference_links: int,
    metrics_of: Callable[[Sequence[list[Link]]], AlignmentMetrics],
    *,
    lexicon_pairs: int | None = None,
) -> HeadRanking:
    links_by_head: dict[AlignmentHead, list[list[Link]]] = {}
    for pair_links in aligner.alignments_by_head(pairs):
        for head, links in pair_links.items():
            links_by_head.setdefault(head, []).append(links)
    metrics = {head: metrics_of(links) for head, links in links_by_head.items()}
    return HeadRanking(
        metrics=dict(sorted(metrics.items(), key=lambda item: item[1].error_rate)),
        diagonal=metrics_of([diagonal(len(words(pair.source)), len(words(pair.target))) for pair in pairs]),
        pairs=len(pairs),
        links=reference_links,
        lexicon_pairs=lexicon_pairs,
    )


def _check_any(pairs: Sequence[Pair], where: str) -> None:
    if not pairs:
        raise CorpusError(f"{where}: no pairs to align")
