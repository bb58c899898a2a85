"""Word alignments in Pharaoh format, and their metrics against a reference.

A link "3-5" connects word 3 of the source with word 5 of the target; both are counted from 0, and words are separated
by spaces. In a reference, "3-5" is a sure link and "3?5" (or "3p5") a possible link (Och and Ney, "A Systematic
Comparison of Various Statistical Alignment Models", 2003).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dragoman.errors import CorpusError

# Index of a source word and index of a target word.
Link = tuple[int, int]
_LINK = re.compile("([0-9]{1,9})([-?p])([0-9]{1,9})")


@dataclass(frozen=True)
class Reference:
    """Reference alignment of a sentence.

    Attributes:
        sure: links that a correct alignment must contain.
        possible: links that a correct alignment may contain, including the sure ones.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, kw_only=True)
class AlignmentMetrics:
    """Agreement of alignments with references, over all sentences (Och and Ney, 2003, section 4).

    A is the set of links, S the set of sure links and P the set of possible links of the references.

    Attributes:
        precision: link precision, |A ∩ P| / |A|; 0 to 1, higher is better.
        recall: link recall, |A ∩ S| / |S|; 0 to 1, higher is better.
        error_rate: alignment error rate (AER), 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|); 0 to 1, lower is better.
        links: |A|.
    """

    precision: float
    recall: float
    error_rate: float
    links: int


def alignment_metrics(alignments: Sequence[Collection[Link]], references: Sequence[Reference]) -> AlignmentMetrics:
    """Return the metrics of alignments against references.

    Args:
        alignments: links of each sentence.
        references: reference of each sentence.

    Example:
        >>> [reference] = read_references(["0-0 1?1"], "reference.txt")
        >>> metrics = alignment_metrics([[(0, 0), (2, 1)]], [reference])
        >>> metrics.precision, metrics.recall
        (0.5, 1.0)
    """
    assert len(alignments) == len(references)
    links = sure = correct_sure = correct_possible = 0
    for alignment, reference in zip(alignments, references, strict=True):
        distinct = set(alignment)
        links += len(distinct)
        sure += len(reference.sure)
        correct_sure += len(distinct & reference.sure)
        correct_possible += len(distinct & reference.possible)
    return AlignmentMetrics(
        precision=correct_possible / links if links else 1.0,
        recall=correct_sure / sure if sure else 1.0,
        error_rate=1 - (correct_sure + correct_possible) / (links + sure) if links + sure else 0.0,
        links=links,
    )


def read_references(lines: Iterable[str], where: str) -> list[Reference]:
    """Parse one reference alignment per line.

    Args:
        lines: the lines.
        where: name of the file, for messages.

    Raises:
        CorpusError: if a line contains something other than links; the message names file and line.
    """
    references = []
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for text in line.split():
            match = _LINK.fullmatch(text)
            if match is None:
                raise CorpusError(
                    f"{where}:{number}: {text!r} is not a link; use 0-0 for a sure link, 0?0 for a possible link"
                )
            link = (int(match[1]), int(match[3]))
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        references.append(Reference(frozenset(sure), frozenset(possible)))
    return references


def pharaoh(links: Iterable[Link]) -> str:
    """Return the links of a sentence in Pharaoh format, sorted.

    Example:
        >>> pharaoh([(1, 1), (0, 2)])
        '0-2 1-1'
    """
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def diagonal(source_words: int, target_words: int) -> list[Link]:
    """Return links of each target word to the source word at the same relative position, as a baseline."""
    return [
        (round(target * (source_words - 1) / max(1, target_words - 1)), target)
        for target in range(target_words)
        if source_words
    ]


def words(line: str) -> list[str]:
    """Return the words of a line, which are separated by spaces."""
    return [word for word in line.split(" ") if word]


def partial_alignment_metrics(
    alignments: Sequence[Collection[Link]], references: Sequence[frozenset[Link]]
) -> AlignmentMetrics:
    """Return the metrics of alignments against references that contain the links of some words only.

    Links between words that do not occur in the reference are ignored.

    Args:
        alignments: links of each sentence.
        references: sure links of some words of each sentence.
    """
    return alignment_metrics(
        [links_of_words_in(reference, alignment) for alignment, reference in zip(alignments, references, strict=True)],
        [Reference(reference, reference) for reference in references],
    )


def links_of_words_in(reference: Collection[Link], links: Iterable[Link]) -> list[Link]:
    """Return the links whose source word or target word occurs in a link of `reference`."""
    sources, targets = {source for source, _ in reference}, {target for _, target in reference}
    return [link for link in links if link[0] in sources or link[1] in targets]
