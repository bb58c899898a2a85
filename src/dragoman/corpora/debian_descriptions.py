"""Descriptions of Debian's packages, read from apt's lists; what the corpora made from them share.

The format is defined in the Debian Policy, sections 5.1 (control files) and 5.6.13 (Description): the first line is the
short description; the other lines are the long description, in which a line with only a full stop separates paragraphs.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.parser import HeaderParser

from dragoman.corpora.apt import AptList
from dragoman.corpora.folder import CorpusContents
from dragoman.corpora.holdout import Split
from dragoman.corpora.lines import collapse_white_space
from dragoman.corpora.source import CorpusSource
from dragoman.data.readers import Pair
from dragoman.data.splitting import fold
from dragoman.errors import CorpusError

# Separator of the paragraphs of a long description.
PARAGRAPH = " ¶ "
LICENCE = "those of the packages"
ATTRIBUTION = "the packages' authors and maintainers"

_VERSION = re.compile(r"[-.]?\d[\d.]*")


def in_fixed_order(lists: Iterable[AptList]) -> list[AptList]:
    """Return the lists in an order that does not depend on apt."""
    return sorted(lists, key=lambda apt_list: (apt_list.name, apt_list.content))


def identity(corpus: str, recipe: int, lists: Iterable[AptList]) -> dict[str, object]:
    """Return the entries of the manifest that determine the content of a corpus.

    Args:
        corpus: name of the corpus.
        recipe: version of the extraction.
        lists: apt's lists, in a fixed order.
    """
    hashes = [{"name": apt_list.name, "sha256": hashlib.sha256(apt_list.content).hexdigest()} for apt_list in lists]
    return {"corpus": corpus, "recipe": recipe, "lists": hashes}


def source_packages(lists: Iterable[AptList]) -> dict[str, str]:
    """Return the source package of each package whose name differs from it; only the lists of packages have them."""
    return {
        package: source.split()[0]
        for package, source in fields(lists, "Packages", "Source")
        if source.strip()  # "gcc-12 (12.2.0-14)"
    }


def family(source: str) -> str:
    """Return the name of a source package without version numbers.

    Packages of different versions, such as gcc-12 and gcc-13, have almost equal descriptions.
    """
    return _VERSION.sub("", source) or source


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


def first_paragraph(long: str) -> str:
    """Return the folded first paragraph of a long description.

    It describes the program. Other paragraphs often describe only the part that a package contains, in standard words.
    """
    return fold(long.partition(PARAGRAPH)[0])


def fields(lists: Iterable[AptList], kind: str, field: str) -> Iterator[tuple[str, str]]:
    """Yield package and value of `field` for each entry that has both, in all lists of one kind.

    Raises:
        CorpusError: if a list is not valid UTF-8.
    """
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


def taken_from(lists: Sequence[AptList]) -> str:
    """Return the paragraphs of a README.md that name the lists of descriptions and the licence."""
    names = "\n".join(f"- {apt_list.name}" for apt_list in lists if apt_list.kind == "Translations")
    return f"""Made from these lists of apt:

{names}

The texts were written by the packages' authors and maintainers and are under the licences of the
packages: see `/usr/share/doc/PACKAGE/copyright` of an installed package, or
https://metadata.ftp-master.debian.org/."""


def contents(source: CorpusSource, split: Split, left_out: Mapping[str, int], readme: str) -> CorpusContents:
    """Return the content of the corpus folder.

    Args:
        source: the corpus.
        split: the pairs.
        left_out: number of descriptions that were left out before splitting, by reason.
        readme: content of README.md.

    Raises:
        CorpusError: if a part has no pairs.
    """
    if not all(split.parts.values()):
        raise CorpusError(
            f"apt's lists have too few descriptions for training, validation and test data "
            f"({sum(map(len, split.parts.values()))} pairs); a list of all of Debian's packages is needed"
        )
    return CorpusContents(
        parts=split.parts,
        left_out={**left_out, "repeated in training": split.repeated, "held out but seen": split.seen},
        about={
            "licence": source.licence,
            "attribution": source.attribution,
            "held_out_documents": {"valid": split.valid_documents, "test": split.test_documents},
        },
        readme=readme,
    )
