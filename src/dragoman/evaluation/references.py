"""Grouping and checking of references, of which a source may have several."""

from collections.abc import Iterable, Sequence

from dragoman.errors import CorpusError

# References of one source, at least one.
References = Sequence[str]


def group_references(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the distinct references of each distinct source, both in the order of their first occurrence.

    A source on several lines of a file, for example of a pronunciation dictionary, has several references.

    Example:
        >>> group_references([("a", "x"), ("b", "y"), ("a", "z")])
        {'a': ['x', 'z'], 'b': ['y']}
    """
    grouped: dict[str, list[str]] = {}
    for source, reference in pairs:
        references = grouped.setdefault(source, [])
        if reference not in references:
            references.append(reference)
    return grouped


def check_references(name: str, outputs: Sequence[str], references: Sequence[References]) -> None:
    """Raise CorpusError unless the numbers of outputs and references are equal and not zero.

    Args:
        name: name of the outputs in messages, such as "the outputs".
        outputs: the outputs.
        references: references of each output.
    """
    if len(outputs) != len(references):
        raise CorpusError(
            f"expected {len(references)} lines in {name}, one for each source with references, found {len(outputs)}"
        )
    if not references:
        raise CorpusError("there is nothing to evaluate: the test set has no lines")
    assert all(references), "a source without a reference"


def number_of_references(references: Sequence[References]) -> str:
    """Return the number of references per source for a signature, or "var" if it varies."""
    numbers = {len(group) for group in references}
    return str(numbers.pop()) if len(numbers) == 1 else "var"
