"""Classification: the descriptions of Debian's packages to their sections, read from apt's lists on a Debian machine.

A section is a topic, such as "games" or "net" (Debian Policy, section 2.4). The maintainers of the archive choose it.
"""

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
    name="debian-sections",
    description="descriptions of Debian's packages to their sections, such as games or net; about 60,000 texts, "
    "from apt's lists: only on a Debian machine",
    licence=LICENCE,
    attribution=ATTRIBUTION,
)
# A section with fewer descriptions is left out: too few are held out to measure anything.
LEAST_DESCRIPTIONS = 100
# Sections that describe the state of a package, not its topic.
_NO_TOPIC = ("oldlibs", "debug", "metapackages", "tasks")

# Version of the extraction: increase it when the same lists give other pairs.
_RECIPE = 1


def fetch(
    directory: Path,
    read_lists: Callable[[], Sequence[AptList]] = read_apt_lists,
    on_progress: OnProgress = no_progress,
) -> CorpusFiles:
    """Make the corpus in directory/debian-sections/; equal lists give files that are equal byte for byte.

    Validation and test data are whole families of packages (see `debian_descriptions.family`), without descriptions
    that occur in training data.

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
        split = split_documents(documents, _long_description_key, compare_targets=False)
        return contents(SOURCE, split, left_out, _readme(taken_from(lists), sizes(split.parts)))

    return find_or_make(directory / SOURCE.name, identity(SOURCE.name, _RECIPE, lists), make)


def extract(lists: Iterable[AptList], least: int = LEAST_DESCRIPTIONS) -> tuple[dict[str, list[Pair]], dict[str, int]]:
    """Return distinct pairs (description, section) by family of packages, and the number left out by reason.

    A description is the short one, " ¶ " and the long one.

    Args:
        lists: apt's lists.
        least: sections with fewer descriptions are left out.

    Raises:
        CorpusError: if a list is not valid UTF-8.
    """
    lists = list(lists)
    sources = source_packages(lists)
    # "contrib/games" is the section "games" of the archive area "contrib".
    sections = {package: section.split("/")[-1] for package, section in fields(lists, "Packages", "Section")}
    documents: dict[str, dict[Pair, None]] = {}
    left_out = Counter(
        {
            "no long description": 0,
            "control characters": 0,
            "no topic": 0,
            "repeated in its family": 0,
            "rare section": 0,
        }
    )
    for package, description in fields(lists, "Translations", "Description-en"):
        long, short = split_description(description)
        pair = Pair(f"{short}{PARAGRAPH}{long}", sections.get(package, ""))
        pairs = documents.setdefault(family(sources.get(package, package)), {})
        if not long or not short:
            left_out["no long description"] += 1
        elif any(map(has_unprintable, pair)):
            left_out["control characters"] += 1
        elif not pair.target or pair.target in _NO_TOPIC:
            left_out["no topic"] += 1
        elif pair in pairs:
            left_out["repeated in its family"] += 1
        else:
            pairs[pair] = None
    sizes_of_sections = Counter(pair.target for pairs in documents.values() for pair in pairs)
    kept = {
        name: [pair for pair in pairs if sizes_of_sections[pair.target] >= least] for name, pairs in documents.items()
    }
    left_out["rare section"] = sum(map(len, documents.values())) - sum(map(len, kept.values()))
    return kept, dict(left_out)


def _long_description_key(description: str) -> str:
    """Return the folded first paragraph of the long description; see `debian_descriptions.first_paragraph`."""
    return first_paragraph(description.partition(PARAGRAPH)[2])


def _readme(origin: str, rows: str) -> str:
    return f"""# Descriptions of Debian's packages, and their sections

{origin}

{rows}

Each line contains a description, a tab and the section, in UTF-8. A description is the short
description, `{PARAGRAPH.strip()}` and the long description, whose paragraphs are separated by `{PARAGRAPH.strip()}`.

Changes to the original: white space was collapsed. Descriptions without a long part, repetitions,
sections that do not name a topic ({", ".join(_NO_TOPIC)}) and sections with fewer than
{LEAST_DESCRIPTIONS} descriptions were left out. `valid.tsv` and `test.tsv` contain all packages of
some source packages, which were selected by a hash of their names without version numbers. A
description was left out of these files if the first paragraph of its long part occurs in
`train.tsv` or occurred earlier in these files, after folding case, digits and punctuation.
`manifest.json` contains the counts and the SHA-256 of the lists and of every file.
"""
