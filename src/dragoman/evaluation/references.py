"""Outputs beside their references, of which a source may have several."""

from collections.abc import Iterable, Sequence

from dragoman.errors import CorpusError

# The references of one source: at least one.
References = Sequence[str]


def group_references(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The distinct references of each distinct source, both in the order of their first appearance.

    A file that gives a source on several lines, such as a pronouncing dictionary, has several references for it.
    """
    grouped: dict[str, list[str]] = {}
    for source, reference in pairs:
        references = grouped.setdefault(source, [])
        if reference not in references:
            references.append(reference)
    return grouped


def check_references(what: str, outputs: Sequence[str], references: Sequence[References]) -> None:
    """Raise CorpusError unless there are as many outputs as sources with references, and some."""
    if len(outputs) != len(references):
        raise CorpusError(
            f"{what} are {len(outputs)}, but {len(references)} sources have references; give one for each"
        )
    if not references:
        raise CorpusError("nothing to score: there are no lines")
    assert all(references), "a source without a reference"


def number_of_references(references: Sequence[References]) -> str:
    """As a signature says it: how many references every source has, or that it varies."""
    numbers = {len(each) for each in references}
    return str(numbers.pop()) if len(numbers) == 1 else "var"
