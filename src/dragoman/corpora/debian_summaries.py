"""Summaries: the long and short descriptions of Debian's packages, read from apt's lists on a Debian machine."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dragoman.corpora.apt import AptList, read_apt_lists
from dragoman.corpora.debian_descriptions import (
    ATTRIBUTION,
    LICENCE,
    PARAGRAPH,
    contents,
    family,
    fields,
    first_paragraph,
    identity,
    in_fixed_order,
    source_packages,
    split_description,
    taken_from,
)
from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import split_documents
from dragoman.corpora.lines import has_unprintable
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.data.readers import Pair

SOURCE = CorpusSource(
    name="debian-summaries",
    description="long descriptions of Debian's packages to the short ones, about 60 words to 7; about 60,000 pairs, "
    "from apt's lists: only on a Debian machine",
    licence=LICENCE,
    attribution=ATTRIBUTION,
)

# Version of the extraction: increase it when the same lists give other pairs.
_RECIPE = 1


def fetch(
    directory: Path,
    read_lists: Callable[[], Sequence[AptList]] = read_apt_lists,
    on_progress: OnProgress = no_progress,
) -> CorpusFiles:
    """Make the corpus in directory/debian-summaries/; equal lists give files that are equal byte for byte.

    Validation and test data are whole families of packages (see `family`), without pairs that occur in training data.

    Args:
        directory: the directory in which to make the folder.
        read_lists: function that returns apt's lists.
        on_progress: called with a description of each stage.

    Raises:
        CorpusError: if apt is not installed or has no English descriptions, or see `find_or_make`.
        StorageError: if the folder cannot be written.
    """
    lists = in_fixed_order(read_lists())

    def make() -> CorpusContents:
        on_progress("Reading the descriptions of packages (half a minute) ...")
        documents, left_out = extract(lists)
        split = split_documents(documents, first_paragraph)
        return contents(SOURCE, split, left_out, _readme(taken_from(lists), sizes(split.parts)))

    return find_or_make(directory / SOURCE.name, identity(SOURCE.name, _RECIPE, lists), make)


def extract(lists: Iterable[AptList]) -> tuple[dict[str, list[Pair]], dict[str, int]]:
    """Return distinct pairs (long, short) by family of packages, and the number of descriptions left out by reason.

    Raises:
        CorpusError: if a list is not valid UTF-8.
    """
    lists = list(lists)
    sources = source_packages(lists)
    documents: dict[str, dict[Pair, None]] = {}
    left_out = Counter({"no long description": 0, "control characters": 0, "repeated in its family": 0})
    for package, description in fields(lists, "Translations", "Description-en"):
        pair = split_description(description)
        pairs = documents.setdefault(family(sources.get(package, package)), {})
        if not all(pair):
            left_out["no long description"] += 1
        elif any(map(has_unprintable, pair)):
            left_out["control characters"] += 1
        elif pair in pairs:
            left_out["repeated in its family"] += 1
        else:
            pairs[pair] = None
    return {name: list(pairs) for name, pairs in documents.items()}, dict(left_out)


def _readme(origin: str, rows: str) -> str:
    return f"""# Descriptions of Debian's packages, long to short

{origin}

{rows}

Each line contains a long description, a tab and a short description, in UTF-8. Paragraphs of the
long description are separated by `{PARAGRAPH.strip()}`.

Changes to the original: white space was collapsed. Descriptions without a long part, and
repetitions, were left out. `valid.tsv` and `test.tsv` contain all packages of some source packages,
which were selected by a hash of their names without version numbers. A pair was left out of these
files if its short description, or the first paragraph of its long description, occurs in
`train.tsv` or occurred earlier in these files, after folding case, digits and punctuation.
`manifest.json` contains the counts and the SHA-256 of the lists and of every file.
"""
