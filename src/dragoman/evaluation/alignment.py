"""Which word is a translation of which: Pharaoh pairs, and how well they agree with a reference.

A pair "3-5" joins the source's word 3 and the target's word 5; both count from 0, words are what is between
spaces. In a reference "3-5" is sure and "3?5" (or "3p5") possible (Och and Ney, "A Systematic Comparison of Various
Statistical Alignment Models", 2003).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dragoman.errors import CorpusError

Link = tuple[int, int]
_LINK = re.compile("([0-9]{1,9})([-?p])([0-9]{1,9})")


@dataclass(frozen=True)
class Reference:
    """Links that should be there, and links that may be: `possible` contains `sure`."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, kw_only=True)
class AlignmentMetrics:
    """Agreement with a reference, over all sentences (Och and Ney 2003, section 4).

    precision   links found that are possible, of those found
    recall      sure links that are found, of the sure ones
    error_rate  AER: 1 - (found and sure + found and possible) / (found + sure); 0 is best
    links       how many were found
    """

    precision: float
    recall: float
    error_rate: float
    links: int


def alignment_metrics(found: Sequence[Collection[Link]], references: Sequence[Reference]) -> AlignmentMetrics:
    """Score the links of each sentence against its reference."""
    assert len(found) == len(references)
    links = sure = found_sure = found_possible = 0
    for these, reference in zip(found, references, strict=True):
        distinct = set(these)
        links += len(distinct)
        sure += len(reference.sure)
        found_sure += len(distinct & reference.sure)
        found_possible += len(distinct & reference.possible)
    return AlignmentMetrics(
        precision=found_possible / links if links else 1.0,
        recall=found_sure / sure if sure else 1.0,
        error_rate=1 - (found_sure + found_possible) / (links + sure) if links + sure else 0.0,
        links=links,
    )


def read_references(lines: Iterable[str], where: str) -> list[Reference]:
    """A reference for each line of a file `where`.

    Raises CorpusError with the line for what is no link.
    """
    references = []
    for number, line in enumerate(lines, 1):
        sure, possible = set(), set()
        for text in line.split():
            match = _LINK.fullmatch(text)
            if match is None:
                raise CorpusError(
                    f"{where}:{number}: {text!r} is no link; write 0-0 for a sure one, 0?0 for a possible one"
                )
            link = (int(match[1]), int(match[3]))
            possible.add(link)
            if match[2] == "-":
                sure.add(link)
        references.append(Reference(frozenset(sure), frozenset(possible)))
    return references


def pharaoh(links: Iterable[Link]) -> str:
    """The links of a sentence as text, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def diagonal(source_words: int, target_words: int) -> list[Link]:
    """Each target word with the source word at the same place of its sentence: what anything must beat."""
    return [
        (round(target * (source_words - 1) / max(1, target_words - 1)), target)
        for target in range(target_words)
        if source_words
    ]


def words(line: str) -> list[str]:
    """What stands between spaces."""
    return [word for word in line.split(" ") if word]


def partial_alignment_metrics(found: Sequence[Collection[Link]], known: Sequence[frozenset[Link]]) -> AlignmentMetrics:
    """Score the links of each sentence where only some of its words' links are known: by those of these words alone."""
    return alignment_metrics(
        [touching(links, these) for links, these in zip(found, known, strict=True)],
        [Reference(these, these) for these in known],
    )


def touching(links: Iterable[Link], known: Collection[Link]) -> list[Link]:
    """The links of words that some link in `known` is of."""
    sources, targets = {source for source, _ in known}, {target for _, target in known}
    return [link for link in links if link[0] in sources or link[1] in targets]
