"""A reference of word alignments beside the pairs that it is of: one line of links for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dragoman.data.readers import Pair, read_lines
from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import Reference, read_references, words


class LengthLimit(Protocol):
    """Says which pairs are short enough to be aligned; a `Translator` does."""

    @property
    def max_source_tokens(self) -> int:
        """The largest number of subwords on a side."""

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Say of each pair whether it is within the limit."""


def read_reference_alignments(path: Path, pairs: Sequence[Pair], whose: str) -> list[Reference]:
    """Read the reference of each of `pairs` from a file in Pharaoh's format.

    whose  says in messages which pairs these are: "of test.tsv"

    Raises CorpusError when there are fewer lines than pairs, or a link is of a word that its pair does not have.
    """
    lines = [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in read_lines(str(path))]
    references = read_references(lines[: len(pairs)], str(path))
    if len(lines) < len(pairs):
        raise CorpusError(
            f"{path} has {len(lines):,} lines for {len(pairs):,} pairs {whose}; there must be one for each"
        )
    for number, (pair, reference) in enumerate(zip(pairs, references, strict=True), 1):
        sizes = len(words(pair.source)), len(words(pair.target))
        for link in reference.possible:
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise CorpusError(
                    f"{path}:{number}: there is no link {link[0]}-{link[1]}: the source has {sizes[0]} words and the "
                    f"target {sizes[1]}, counted from 0"
                )
    return references


def check_fit(limit: LengthLimit, pairs: Sequence[Pair], where: str) -> None:
    """Raise CorpusError for a pair that is too long to be aligned as one piece; `where` names the corpus."""
    for number, fits in enumerate(limit.fits(pairs), 1):
        if not fits:
            raise CorpusError(
                f"{where}: pair {number} has more than {limit.max_source_tokens:,} subwords on a side, too many "
                "to align as one: take it out, and its line of the reference"
            )
