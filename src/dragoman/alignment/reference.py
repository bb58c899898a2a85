"""Reference word alignments of a corpus: a file with one line of links for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from dragoman.data.readers import Pair, read_lines
from dragoman.errors import CorpusError
from dragoman.evaluation.alignment import Reference, read_references, words


class LengthLimit(Protocol):
    """Interface of the length limit of alignment; `Translator` implements it."""

    @property
    def max_source_tokens(self) -> int:
        """Largest number of subwords on a side."""

    def fits(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Return, for each pair, True if it is within the limit."""


def read_reference_alignments(path: Path, pairs: Sequence[Pair], corpus: str) -> list[Reference]:
    """Read reference alignments from a file in the Pharaoh format.

    Args:
        path: the file; its first lines belong to `pairs`, in order.
        pairs: the aligned pairs.
        corpus: name of the corpus of the pairs in messages.

    Returns:
        One reference per pair, in order.

    Raises:
        CorpusError: if there are fewer lines than pairs, or a link points to a word that its pair does not have.
    """
    lines = [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in read_lines(str(path))]
    references = read_references(lines[: len(pairs)], str(path))
    if len(lines) < len(pairs):
        raise CorpusError(
            f"{path} has {len(lines):,} lines for {len(pairs):,} pairs of {corpus}; write one line for each pair"
        )
    for number, (pair, reference) in enumerate(zip(pairs, references, strict=True), 1):
        sizes = len(words(pair.source)), len(words(pair.target))
        for link in reference.possible:
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise CorpusError(
                    f"{path}:{number}: the link {link[0]}-{link[1]} is out of range: the source has {sizes[0]} words "
                    f"and the target {sizes[1]}, counted from 0"
                )
    return references


def check_fit(limit: LengthLimit, pairs: Sequence[Pair], where: str) -> None:
    """Raise CorpusError if a pair is too long to be aligned as one segment; `where` names the corpus in messages."""
    for number, fits in enumerate(limit.fits(pairs), 1):
        if not fits:
            raise CorpusError(
                f"{where}: pair {number} has more than {limit.max_source_tokens:,} subwords on a side, too many to "
                "align: remove it, and its line of the reference alignments"
            )
