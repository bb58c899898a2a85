"""The corpora there are, and fetching one."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from dragoman.data.corpora import home_assistant
from dragoman.data.corpora.download import Release, cache_directory, file_sha256, obtain
from dragoman.data.corpora.folder import CorpusFiles, find, write
from dragoman.data.corpora.holdout import Split, split_documents
from dragoman.data.readers import Pair
from dragoman.errors import UserError


@dataclass(frozen=True, kw_only=True)
class CorpusSource:
    """What `dragoman corpus list` says about a corpus.

    Attributes:
        languages: the codes that a pair SOURCE-TARGET may be made of, in either direction.
        download_bytes: what fetching the first pair downloads; further pairs download nothing.
    """

    name: str
    description: str
    licence: str
    attribution: str
    languages: tuple[str, ...]
    download_bytes: int


_HOME_ASSISTANT = CorpusSource(
    name="home-assistant",
    description="user-interface strings of Home Assistant, about 6 words each; "
    "24,700 distinct pairs for en-de, 25,300 for zh-en, 11,200 for en-fr",
    licence="Apache-2.0",
    attribution="The Home Assistant Authors",
    languages=home_assistant.LANGUAGES,
    download_bytes=home_assistant.RELEASE.size,
)

# To be increased when the same wheel would give other files.
_RECIPE = 1


def list_corpora() -> list[CorpusSource]:
    """The corpora that `fetch` knows."""
    return [_HOME_ASSISTANT]


def fetch(name: str, pair: str, directory: Path, *, wheel: Path | None = None) -> CorpusFiles:
    """Make the corpus `name` for the language pair "SOURCE-TARGET" below `directory`.

    Writes directory/name/pair/ with train.tsv, valid.tsv, test.tsv (source, tab, target: UTF-8),
    manifest.json, README.md and LICENSE, all or nothing, the same bytes every time. Validation and
    test are whole documents (here: integrations) without what training has seen. A folder that is
    already there is used as it is if it is unchanged, without any download.

    The published wheel comes from a cache or from the package index (through pip) and is checked
    against a pinned hash. `wheel` names a wheel file to read instead, of any release of the same
    project, which is taken as it is.

    Raises UserError for an unknown name or language, a failed download, a damaged wheel, a folder
    that holds something else, and what the file system refuses.
    """
    if name != _HOME_ASSISTANT.name:
        known = ", ".join(source.name for source in list_corpora())
        raise UserError(f"there is no corpus {name!r}; there is: {known}")
    source, target = home_assistant.parse_pair(pair)
    folder = directory / name / f"{source}-{target}"
    release = home_assistant.RELEASE
    # What decides the content: a folder made from the same is the same.
    identity: dict[str, object] = {
        "corpus": name,
        "recipe": _RECIPE,
        "wheel": wheel.name if wheel else release.file_name,
        "sha256": file_sha256(wheel) if wheel else release.sha256,
        "source_language": source,
        "target_language": target,
    }
    if (files := find(folder, identity)) is not None:
        return files
    # Shown on a terminal only, and gone afterwards.
    with Console(stderr=True).status("") as status:
        if wheel is None:
            status.update(_announce(release))
            wheel = obtain(release, cache_directory())
        status.update(f"Reading {source}-{target} from {wheel.name} ...")
        extracted = home_assistant.extract(wheel, source, target)
        split = split_documents(extracted.documents)
    parts = {"train.tsv": split.train, "valid.tsv": split.valid, "test.tsv": split.test}
    if not all(parts.values()):
        raise UserError(
            f"{wheel.name} has too few texts in both {source} and {target} to train and test on "
            f"({sum(map(len, parts.values()))} pairs); choose another pair"
        )
    counts = {part.removesuffix(".tsv"): len(pairs) for part, pairs in parts.items()}
    left_out = {
        **extracted.left_out,
        "repeated in training": split.repeated,
        "held out but seen": split.seen,
    }
    described = {
        "version": extracted.version,
        "licence": _HOME_ASSISTANT.licence,
        "attribution": _HOME_ASSISTANT.attribution,
        "pairs": counts,
        "left_out": left_out,
        "held_out_documents": {"valid": split.valid_documents, "test": split.test_documents},
    }
    contents = {part: _tsv(pairs) for part, pairs in parts.items()}
    contents["README.md"] = _readme(wheel.name, source, target, split).encode()
    contents["LICENSE"] = extracted.licence
    write(folder, contents, identity | described)
    return CorpusFiles.below(folder, pairs=counts, left_out=left_out, already_there=False)


def _announce(release: Release) -> str:
    size = f"{release.size / 1e6:.0f} MB"
    return f"Fetching {release.project} {release.version} ({size}, once) ..."


def _tsv(pairs: list[Pair]) -> bytes:
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode()


def _readme(wheel_name: str, source: str, target: str, split: Split) -> str:
    sizes: Mapping[str, int] = {
        "train.tsv": len(split.train),
        "valid.tsv": len(split.valid),
        "test.tsv": len(split.test),
    }
    rows = "\n".join(f"- `{name}`: {size:,} pairs" for name, size in sizes.items())
    return f"""# Home Assistant, {source} to {target}

User-interface strings of Home Assistant (https://www.home-assistant.io/), taken from the translations
in the published wheel `{wheel_name}`. Copyright The Home Assistant Authors, under the Apache
License, Version 2.0: see `LICENSE`.

{rows}

One pair a line, source, tab, target, in UTF-8.

Changed from the original: the strings were aligned by key; line breaks, tabs and runs of spaces
became single spaces; empty and untranslated strings, repetitions, and strings that refer to
others were left out. `valid.tsv` and `test.tsv` are whole integrations, chosen by a hash of their
names, without any string whose source or target occurs in `train.tsv` after folding case, digits,
punctuation and placeholders. `manifest.json` has the counts, and the SHA-256 of the wheel and of
every file.
"""
