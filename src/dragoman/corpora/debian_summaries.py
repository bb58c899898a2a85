"""Long descriptions of Debian's packages to their short ones, from the lists that apt keeps on a Debian machine.

Format: Debian Policy, sections 5.1 (control files) and 5.6.13 (Description): the first line is the short description;
of the others, one with a lone full stop separates paragraphs.
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
    description="long descriptions of Debian's packages to the short ones, about 60 words to 7; some 60,000 pairs, "
    "from apt's own lists: on a Debian machine only",
    licence="those of the packages",
    attribution="the packages' authors and maintainers",
)
# Stands between the paragraphs of a long description.
PARAGRAPH = " ¶ "

# To be increased when the same lists would give other files.
_RECIPE = 1
_VERSION = re.compile(r"[-.]?\d[\d.]*")


def fetch(
    directory: Path,
    read_lists: Callable[[], Sequence[AptList]] = read_apt_lists,
    on_progress: OnProgress = no_progress,
) -> CorpusFiles:
    """Make the corpus in directory/debian-summaries/: other lists give another corpus, the same lists the same bytes.

    Validation and test are whole families of packages (see `family`) without what training has seen. Raises CorpusError
    where there is no apt, or no list with English descriptions, and what `find_or_make` raises.
    """
    lists = sorted(read_lists(), key=lambda each: (each.name, each.content))
    identity = {
        "corpus": SOURCE.name,
        "recipe": _RECIPE,
        "lists": [{"name": each.name, "sha256": hashlib.sha256(each.content).hexdigest()} for each in lists],
    }

    def make() -> CorpusContents:
        on_progress("Reading the descriptions of packages (half a minute) ...")
        documents, left_out = extract(lists)
        return _contents(lists, split_documents(documents, _first_paragraph), left_out)

    return find_or_make(directory / SOURCE.name, identity, make)


def extract(lists: Iterable[AptList]) -> tuple[dict[str, list[Pair]], dict[str, int]]:
    """Distinct pairs (long, short) by family of packages, and how many descriptions were left out for what reason.

    Raises CorpusError for a list that is not UTF-8.
    """
    lists = list(lists)
    # The lists of descriptions do not say from which source a package is built; those of packages do if it has
    # another name.
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
    """Long description, on one line with " ¶ " between its paragraphs, and short description."""
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
    """What says what a package is: the others often say only which part of its source, in the same words everywhere."""
    return fold(long.partition(PARAGRAPH)[0])


def family(source: str) -> str:
    """The name of a source package without its numbers: gcc-12 and gcc-13 have all but the same descriptions."""
    return _VERSION.sub("", source) or source


def _fields(lists: Iterable[AptList], kind: str, field: str) -> Iterator[tuple[str, str]]:
    """Package and value of `field` wherever both are there, in all lists of one kind."""
    parser = HeaderParser()
    for each in lists:
        if each.kind != kind:
            continue
        try:
            text = each.content.decode()
        except UnicodeDecodeError as error:
            raise CorpusError(f"apt's list {each.name} is not UTF-8; fetch it anew: apt-get update") from error
        for stanza in text.split("\n\n"):
            entry = parser.parsestr(stanza)
            if entry["Package"] and entry[field]:
                yield entry["Package"], entry[field]


def _contents(lists: Sequence[AptList], split: Split, left_out: dict[str, int]) -> CorpusContents:
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    if not all(parts.values()):
        raise CorpusError(
            f"apt's lists have too few descriptions to train and test on ({sum(map(len, parts.values()))}); "
            "a list of all of Debian's packages is needed, not of a few"
        )
    return CorpusContents(
        parts=parts,
        left_out={**left_out, "repeated in training": split.repeated, "held out but seen": split.seen},
        about={
            "licence": SOURCE.licence,
            "attribution": SOURCE.attribution,
            "held_out_documents": {"valid": split.valid_documents, "test": split.test_documents},
        },
        readme=_readme([each.name for each in lists if each.kind == "Translations"], sizes(parts)),
    )


def _readme(names: Sequence[str], rows: str) -> str:
    taken_from = "\n".join(f"- {name}" for name in names)
    return f"""# Descriptions of Debian's packages, long to short

Taken from these lists of apt:

{taken_from}

The texts are by the packages' authors and maintainers, under the licences of the packages: see
`/usr/share/doc/PACKAGE/copyright` of an installed package, or https://metadata.ftp-master.debian.org/.

{rows}

One pair a line, long description, tab, short description, in UTF-8. Where the long description has
a break between paragraphs, the line has `{PARAGRAPH.strip()}`.

Changed from the original: white space was collapsed; descriptions without a long part, and
repetitions, were left out. `valid.tsv` and `test.tsv` are packages of some sources, chosen by a
hash of the sources' names without version numbers; each pair whose short description, or first
paragraph of the long one, occurs in `train.tsv`, or occurred in these files before, was left out
after folding case, digits and punctuation. `manifest.json` has the counts, and the SHA-256 of the
lists and of every file.
"""
