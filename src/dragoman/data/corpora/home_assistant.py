"""Home Assistant's user-interface strings: read from its wheel, aligned by key.

The wheel has a file homeassistant/components/INTEGRATION/translations/LANGUAGE.json for each
integration and language: texts in nested objects with the same keys in every language.
"""

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.data.corpora.download import Release
from dragoman.data.readers import Pair
from dragoman.errors import UserError

RELEASE = Release(
    project="homeassistant",
    version="2026.2.3",
    file_name="homeassistant-2026.2.3-py3-none-any.whl",
    sha256="8167820cac4b8defe895fd2c36ac23402a445d1fe6028e8cde24caabb935282c",
    size=51_240_053,
    python="3.14",
)

# Those of the release that share 300 pairs or more with English.
_CODES = (
    "bg ca cs da de el en en-GB es es-419 et fi fr fy ga gl gsw he hr hu id is it ja ko lb lt lv mk "
    "nb nl pl pt pt-BR ro ru sk sl sr-Latn sv tr uk vi zh zh-Hant"
)
LANGUAGES = tuple(_CODES.split())
# Chinese without further words is this for us; Home Assistant always says which.
_SIMPLIFIED_CHINESE = "zh-Hans"

_MEMBER = re.compile(r"homeassistant/components/([a-z0-9_]+)/translations/([A-Za-z0-9-]+)\.json")
_LICENCE = re.compile(r"homeassistant-([^/]+)\.dist-info/licenses/LICENSE\.md")
# Sixty times what the largest of them needs: a guard against files made to exhaust memory.
_MAX_MEMBER_BYTES = 16_000_000

# All that breaks a line, and tabs and spaces. Not the no-break space, which French spelling needs.
_WHITE = re.compile(r"[ \t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]+")
# Control characters, and halves of surrogate pairs, which JSON can spell and UTF-8 cannot.
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# "[%key:common::state::on%]" stands for a text that is written elsewhere.
_REFERENCE = "[%key:"


@dataclass(frozen=True, kw_only=True)
class Extracted:
    """What a wheel of some version has: pairs by integration, how many were left out for what
    reason, and the text of the licence.
    """

    version: str
    documents: dict[str, list[Pair]]
    left_out: dict[str, int]
    licence: bytes


def parse_pair(pair: str) -> tuple[str, str]:
    """Source and target language of "en-de" or "zh-Hant-en".

    Raises UserError, listing the languages, when these are not two of them.
    """
    # Codes may have hyphens of their own: one place to cut leaves a language on either side.
    cuts = [match.start() for match in re.finditer("-", pair)]
    for source, target in ((pair[:cut], pair[cut + 1 :]) for cut in cuts):
        source, target = ("zh" if c == _SIMPLIFIED_CHINESE else c for c in (source, target))
        if source in LANGUAGES and target in LANGUAGES and source != target:
            return source, target
    raise UserError(
        f"{pair!r} is not a language pair; write SOURCE-TARGET, such as en-de, with two of: " + ", ".join(LANGUAGES)
    )


def extract(wheel: Path, source: str, target: str) -> Extracted:
    """Read the pairs of two languages from a wheel, of which nothing is unpacked or imported.

    Line breaks, tabs and runs of spaces become single spaces: a pair is one line of text. Left out
    are empty texts, references to other texts, texts with control characters, and untranslated
    ones (target equal to source: most are not yet translated, and all can be had by copying).

    Raises UserError when the wheel is damaged, or is none of Home Assistant's.
    """
    documents: dict[str, list[Pair]] = {}
    left_out = Counter(
        {"empty": 0, "reference": 0, "control characters": 0, "untranslated": 0},
    )
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.namelist()
            found = next(filter(None, map(_LICENCE.fullmatch, members)), None)
            if found is None:
                raise UserError(f"{wheel}: not a wheel of Home Assistant (it has no licence file)")
            licence = _read(archive, found[0])
            for integration, ours, theirs in _aligned_members(members, source, target):
                translations = dict(_leaves(_parse(archive, theirs)))
                pairs = documents.setdefault(integration, [])
                for key, text in _leaves(_parse(archive, ours)):
                    if key not in translations:
                        continue
                    pair = Pair(*(_WHITE.sub(" ", t).strip(" ") for t in (text, translations[key])))
                    reason = _why_not(pair)
                    if reason is None:
                        pairs.append(pair)
                    else:
                        left_out[reason] += 1
    except UserError:
        raise
    # ValueError: no JSON, no UTF-8 (names of members too). RuntimeError: encrypted, nested too deep.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError) as error:
        raise UserError(f"{wheel}: a damaged wheel ({error}); fetch it anew") from error
    return Extracted(version=found[1], documents=documents, left_out=dict(left_out), licence=licence)


def _aligned_members(members: list[str], source: str, target: str) -> Iterator[tuple[str, str, str]]:
    """Yield (integration, file of source language, file of target language), in order of name."""
    by_language: dict[str, dict[str, str]] = {}
    for name in members:
        if match := _MEMBER.fullmatch(name):
            by_language.setdefault(match[2], {})[match[1]] = name
    ours, theirs = (by_language.get(_SIMPLIFIED_CHINESE if code == "zh" else code, {}) for code in (source, target))
    for integration in sorted(ours.keys() & theirs.keys()):
        yield integration, ours[integration], theirs[integration]


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    member = archive.getinfo(name)
    if member.file_size > _MAX_MEMBER_BYTES:
        raise ValueError(f"{name} is too large")
    # Other methods may be missing from this Python, and fail in ways of their own.
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed by a method that wheels do not use")
    return archive.read(name)


def _parse(archive: zipfile.ZipFile, name: str) -> object:
    content = _read(archive, name)
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


def _why_not(pair: Pair) -> str | None:
    if not (pair.source and pair.target):
        return "empty"
    if any(_REFERENCE in text for text in pair):
        return "reference"
    if any(_UNPRINTABLE.search(text) for text in pair):
        return "control characters"
    return "untranslated" if pair.source == pair.target else None
