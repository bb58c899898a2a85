"""Summaries: the long and short descriptions of Debian's packages, read from apt's lists on a Debian machine.

The format is defined in the Debian Policy, sections 5.1 (control files) and 5.6.13 (Description): the first line is the
short description; the other lines are the long description, in which a line with only a full stop separates paragraphs.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from email.parser import HeaderParser
from pathlib import Path

from dragoman.corpora.apt import AptList, read_apt_lists
from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import Split, split_documents
from dragoman.corpora.lines import collapse_white_space, has_unprintable
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.data.readers import Pair
from dragoman.data.splitting import fold
from dragoman.errors import CorpusError

SOURCE = CorpusSource(
    name="debian-summaries",
    description="long descriptions of Debian's packages to the short ones, about 60 words to 7; about 60,000 pairs, "
    "from apt's lists: only on a Debian machine",
    licence="those of the packages",
    attribution="the packages' authors and maintainers",
)
# Separator of the paragraphs of a long description.
PARAGRAPH = " ¶ "

# Version of the extraction: increase it when the same lists give other pairs.
_RECIPE = 1
_VERSION = re.compile(r"[-.]?\d[\d.]*")


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
    lists = sorted(read_lists(), key=lambda apt_list: (apt_list.name, apt_list.content))
    identity = {
        "corpus": SOURCE.name,
        "recipe": _RECIPE,
        "lists": [
            {"name": apt_list.name, "sha256": hashlib.sha256(apt_list.content).hexdigest()} for apt_list in lists
        ],
    }

    def make() -> CorpusContents:
        on_progress("Reading the descriptions of packages (half a minute) ...")
        documents, left_out = extract(lists)
        return _contents(lists, split_documents(documents, _first_paragraph), left_out)

    return find_or_make(directory / SOURCE.name, identity, make)


def extract(lists: Iterable[AptList]) -> tuple[dict[str, list[Pair]], dict[str, int]]:
    """Return distinct pairs (long, short) by family of packages, and the number of descriptions left out by reason.

    Raises:
        CorpusError: if a list is not valid UTF-8.
    """
    lists = list(lists)
    # The source package is only in the lists of packages, and only where its name differs from the package's.
    sources = {
        package: source.split()[0]
        for package, source in _fields(lists, "Packages", "Source")
        if source.strip()  # "gcc-12 (12.2.0-14)"
    }
    documents: dict[str, dict[Pair, None]] = {}
    left_out = Counter({"no long description": 0, "control characters": 0, "repeated in its family": 0})
    for package, description in _fields(lists, "Translations", "Description-en"):
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


def split_description(description: str) -> Pair:
    """Return the long description, on one line with " ¶ " between paragraphs, and the short description."""
    short, *lines = description.split("\n")
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip() == ".":
            paragraphs.append([])
        else:
            paragraphs[-1].append(line)
    texts = (collapse_white_space(" ".join(paragraph)) for paragraph in paragraphs)
    return Pair(PARAGRAPH.join(filter(None, texts)), collapse_white_space(short))


def _first_paragraph(long: str) -> str:
    """Return the folded first paragraph of a long description.

    It describes the program. Other paragraphs often describe only the part that a package contains, in standard words.
    """
    return fold(long.partition(PARAGRAPH)[0])


def family(source: str) -> str:
    """Return the name of a source package without version numbers.

    Packages of different versions, such as gcc-12 and gcc-13, have almost equal descriptions.
    """
    return _VERSION.sub("", source) or source


def _fields(lists: Iterable[AptList], kind: str, field: str) -> Iterator[tuple[str, str]]:
    """Yield package and value of `field` for each entry that has both, in all lists of one kind."""
    parser = HeaderParser()
    for apt_list in lists:
        if apt_list.kind != kind:
            continue
        try:
            text = apt_list.content.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"apt's list {apt_list.name} is not UTF-8; download it again: apt-get update") from error
        for stanza in text.split("\n\n"):
            entry = parser.parsestr(stanza)
            if entry["Package"] and entry[field]:
                yield entry["Package"], entry[field]


def _contents(lists: Sequence[AptList], split: Split, left_out: dict[str, int]) -> CorpusContents:
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    if not all(parts.values()):
        raise CorpusError(
            f"apt's lists have too few descriptions for training, validation and test data "
            f"({sum(map(len, parts.values()))} pairs); a list of all of Debian's packages is needed"
        )
    return CorpusContents(
        parts=parts,
        left_out={**left_out, "repeated in training": split.repeated, "held out but seen": split.seen},
        about={
            "licence": SOURCE.licence,
            "attribution": SOURCE.attribution,
            "held_out_documents": {"valid": split.valid_documents, "test": split.test_documents},
        },
        readme=_readme([apt_list.name for apt_list in lists if apt_list.kind == "Translations"], sizes(parts)),
    )


def _readme(names: Sequence[str], rows: str) -> str:
    taken_from = "\n".join(f"- {name}" for name in names)
    return f"""# Descriptions of Debian's packages, long to short

Made from these lists of apt:

{taken_from}

The texts were written by the packages' authors and maintainers and are under the licences of the
packages: see `/usr/share/doc/PACKAGE/copyright` of an installed package, or
https://metadata.ftp-master.debian.org/.

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
