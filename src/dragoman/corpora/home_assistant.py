"""User-interface strings of Home Assistant, read from its published wheel and aligned by key.

For each integration and language, the wheel contains a file with texts in nested objects, with the same keys in every
language: homeassistant/components/INTEGRATION/translations/LANGUAGE.json.
"""

import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.download import Release, identity_of, resolve_wheel
from dragoman.corpora.folder import CorpusContents, CorpusFiles, find_or_make, sizes
from dragoman.corpora.holdout import split_documents
from dragoman.corpora.lines import collapse_white_space, has_unprintable
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.corpora.wheels import open_wheel, read_member
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, SettingsError

RELEASE = Release(
    project="homeassistant",
    version="2026.2.3",
    file_name="homeassistant-2026.2.3-py3-none-any.whl",
    sha256="8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c",
    size=51_240_053,
    python="3.14",
)

# Languages of the release with at least 300 pairs with English.
_CODES = (
    "bg ca cs da de el en en-GB es es-419 et fi fr fy ga gl gsw he hr hu id is it ja ko lb lt lv mk "
    "nb nl pl pt pt-BR ro ru sk sl sr-Latn sv tr uk vi zh zh-Hant"
)
LANGUAGES = tuple(_CODES.split())
# Language code of Home Assistant for which Dragoman uses "zh".
_SIMPLIFIED_CHINESE = "zh-Hans"

_MEMBER = re.compile(r"homeassistant/components/([a-z0-9_]+)/translations/([A-Za-z0-9-]+)\.json")
_LICENCE = re.compile(r"homeassistant-([^/]+)\.dist-info/licenses/LICENSE\.md")
# Beginning of a reference to another text, such as "[%key:common::state::on%]".
_REFERENCE = "[%key:"

SOURCE = CorpusSource(
    name="home-assistant",
    description="user-interface strings of Home Assistant, about 6 words each; "
    "24,700 distinct pairs for en-de, 25,300 for zh-en, 11,200 for en-fr",
    licence="Apache-2.0",
    attribution="The Home Assistant Authors",
    languages=LANGUAGES,
    download_bytes=RELEASE.size,
)
# Version of the extraction: increase it when the same wheel gives other pairs.
_RECIPE = 1


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """Content of a wheel.

    Attributes:
        version: version of the release.
        documents: pairs of each integration.
        left_out: number of texts left out, by reason.
        licence: text of the licence.
    """

    version: str
    documents: dict[str, list[Pair]]
    left_out: dict[str, int]
    licence: bytes


def fetch(directory: Path, pair: str, wheel: Path | None = None, on_progress: OnProgress = no_progress) -> CorpusFiles:
    """Make the corpus of the language pair "SOURCE-TARGET" in directory/home-assistant/SOURCE-TARGET/.

    Validation and test data are whole integrations, without texts of the training data. See `catalogue.fetch` for the
    arguments.

    Raises:
        SettingsError: if a language is unknown.
        CorpusError: if the download failed, the wheel is damaged, or see `find_or_make`.
        StorageError: if the folder or the cache cannot be written.
    """
    source, target = parse_pair(pair)
    identity = {
        "corpus": SOURCE.name,
        "recipe": _RECIPE,
        **identity_of(RELEASE, wheel),
        "source_language": source,
        "target_language": target,
    }

    def make() -> CorpusContents:
        path = resolve_wheel(RELEASE, wheel, on_progress)
        on_progress(f"Reading {source}-{target} from {path.name} ...")
        return _contents(path, source, target)

    return find_or_make(directory / SOURCE.name / f"{source}-{target}", identity, make)


def parse_pair(pair: str) -> tuple[str, str]:
    """Return source and target language of a pair such as "en-de" or "zh-Hant-en".

    Raises:
        SettingsError: if these are not two different languages of the corpus; the message lists the languages.
    """
    # Codes may contain hyphens: try each hyphen as the separator.
    hyphens = [match.start() for match in re.finditer("-", pair)]
    for source, target in ((pair[:at], pair[at + 1 :]) for at in hyphens):
        source, target = ("zh" if c == _SIMPLIFIED_CHINESE else c for c in (source, target))
        if source in LANGUAGES and target in LANGUAGES and source != target:
            return source, target
    raise SettingsError(
        f"{pair!r} is not a language pair; use SOURCE-TARGET, such as en-de, with two of: " + ", ".join(LANGUAGES)
    )


def extract(wheel: Path, source: str, target: str) -> Extracted:
    """Read the pairs of two languages from a wheel without installing or importing it.

    Line breaks, tabs and runs of spaces become single spaces, because a pair is one line of a file. Empty texts,
    references to other texts, texts with control characters and untranslated texts are left out. A text is
    untranslated if its target equals its source: most of these have no translation yet, and a model could produce all
    of them by copying.

    Raises:
        CorpusError: if the wheel is damaged, or is not a wheel of Home Assistant.
    """
    documents: dict[str, list[Pair]] = {}
    left_out = Counter(
        {"empty": 0, "reference": 0, "control characters": 0, "untranslated": 0},
    )
    with open_wheel(wheel) as archive:
        members = archive.namelist()
        licence_file = next(filter(None, map(_LICENCE.fullmatch, members)), None)
        if licence_file is None:
            raise CorpusError(f"{wheel}: not a wheel of Home Assistant (it has no licence file)")
        licence = read_member(archive, licence_file[0])
        for integration, source_file, target_file in _aligned_members(members, source, target):
            translations = dict(_leaves(_parse(archive, target_file)))
            pairs = documents.setdefault(integration, [])
            for key, text in _leaves(_parse(archive, source_file)):
                if key not in translations:
                    continue
                pair = Pair(collapse_white_space(text), collapse_white_space(translations[key]))
                reason = _reason_to_leave_out(pair)
                if reason is None:
                    pairs.append(pair)
                else:
                    left_out[reason] += 1
    return Extracted(version=licence_file[1], documents=documents, left_out=dict(left_out), licence=licence)


def _aligned_members(members: list[str], source: str, target: str) -> Iterator[tuple[str, str, str]]:
    """Yield (integration, file of source language, file of target language), in order of name."""
    by_language: dict[str, dict[str, str]] = {}
    for name in members:
        if match := _MEMBER.fullmatch(name):
            by_language.setdefault(match[2], {})[match[1]] = name
    sources, targets = (by_language.get(_SIMPLIFIED_CHINESE if code == "zh" else code, {}) for code in (source, target))
    for integration in sorted(sources.keys() & targets.keys()):
        yield integration, sources[integration], targets[integration]


def _parse(archive: zipfile.ZipFile, name: str) -> object:
    content = read_member(archive, name)
    try:
        tree: object = json.loads(content)
    except ValueError as error:
        raise ValueError(f"{name} is not JSON: {error}") from error
    return tree


def _leaves(tree: object) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield (path of keys, text) for each text in nested objects, in the order of the file."""
    stack: list[tuple[tuple[str, ...], object]] = [((), tree)]
    while stack:
        path, node = stack.pop()
        if isinstance(node, dict):
            stack.extend(((*path, key), child) for key, child in reversed(node.items()))
        elif isinstance(node, str):
            yield path, node


def _reason_to_leave_out(pair: Pair) -> str | None:
    if not (pair.source and pair.target):
        return "empty"
    if any(_REFERENCE in text for text in pair):
        return "reference"
    if any(map(has_unprintable, pair)):
        return "control characters"
    return "untranslated" if pair.source == pair.target else None


def _contents(wheel: Path, source: str, target: str) -> CorpusContents:
    extracted = extract(wheel, source, target)
    split = split_documents(extracted.documents)
    parts = {"train": split.train, "valid": split.valid, "test": split.test}
    if not all(parts.values()):
        raise CorpusError(
            f"{wheel.name} has too few texts in both {source} and {target} for training, validation and test data "
            f"({sum(map(len, parts.values()))} pairs); choose another language pair"
        )
    return CorpusContents(
        parts=parts,
        left_out={
            **extracted.left_out,
            "repeated in training": split.repeated,
            "held out but seen": split.seen,
        },
        about={
            "version": extracted.version,
            "licence": SOURCE.licence,
            "attribution": SOURCE.attribution,
            "held_out_documents": {"valid": split.valid_documents, "test": split.test_documents},
        },
        readme=_readme(wheel.name, source, target, sizes(parts)),
        licence=extracted.licence,
    )


def _readme(wheel_name: str, source: str, target: str, rows: str) -> str:
    return f"""# Home Assistant, {source} to {target}

User-interface strings of Home Assistant (https://www.home-assistant.io/), taken from the translations
in the published wheel `{wheel_name}`. Copyright The Home Assistant Authors, under the Apache
License, Version 2.0: see `LICENSE`.

{rows}

Each line contains a source, a tab and a target, in UTF-8.

Changes to the original: the strings were aligned by key. Line breaks, tabs and runs of spaces
became single spaces. Empty and untranslated strings, repetitions, and references to other strings
were left out. `valid.tsv` and `test.tsv` contain whole integrations, which were selected by a hash
of their names, without any string whose source or target occurs in `train.tsv` after folding case,
digits, punctuation and placeholders. `manifest.json` contains the counts and the SHA-256 of the
wheel and of every file.
"""
