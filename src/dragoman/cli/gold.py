"""A reference of word alignments beside the pairs that it is of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.errors import UserError

if TYPE_CHECKING:
    from dragoman.data.readers import Pair
    from dragoman.evaluation.alignment import Reference
    from dragoman.translation.translator import Translator


def read_gold(path: Path, pairs: Sequence[Pair], whose: str) -> list[Reference]:
    """The reference for each of `pairs`.

    Raises UserError when there are not as many lines, or a link is of a word that its pair does not have.
    """
    from dragoman.data.readers import read_lines
    from dragoman.evaluation.alignment import read_references, words

    lines = [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in read_lines(str(path))]
    references = read_references(lines[: len(pairs)], str(path))
    if len(lines) < len(pairs):
        raise UserError(f"{path} has {len(lines):,} lines for {len(pairs):,} pairs {whose}; there must be one for each")
    for number, (pair, reference) in enumerate(zip(pairs, references, strict=True), 1):
        sizes = len(words(pair.source)), len(words(pair.target))
        for link in reference.possible:
            if link[0] >= sizes[0] or link[1] >= sizes[1]:
                raise UserError(
                    f"{path}:{number}: there is no link {link[0]}-{link[1]}: the source has {sizes[0]} words and the "
                    f"target {sizes[1]}, counted from 0"
                )
    return references


def check_fit(translator: Translator, pairs: Sequence[Pair], where: str) -> None:
    """Raise UserError for a pair that is too long to be aligned as one piece."""
    for number, fits in enumerate(translator.fits(pairs), 1):
        if not fits:
            raise UserError(
                f"{where}: pair {number} has more than {translator.max_source_tokens:,} subwords on a side, too many "
                "to align as one: take it out, and its line of the reference"
            )
