"""The folder of a fetched corpus: written as a whole, recognised by its manifest."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dragoman.corpora.download import file_sha256
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, StorageError
from dragoman.files import atomic_directory, read_json_object, write_synced


@dataclass(frozen=True, kw_only=True)
class CorpusFiles:
    """Where a fetched corpus lies, and what is in it.

    Attributes:
        pairs: number of pairs in "train", "valid", "test", and any further part PART, which is in PART.tsv.
        left_out: why pairs are in none of them, and how many.
        already_there: whether the folder was found rather than made.
    """

    directory: Path
    train: Path
    valid: Path
    test: Path
    pairs: Mapping[str, int]
    left_out: Mapping[str, int]
    already_there: bool

    @classmethod
    def below(
        cls,
        directory: Path,
        *,
        pairs: Mapping[str, int],
        left_out: Mapping[str, int],
        already_there: bool,
    ) -> Self:
        """The files of a corpus folder."""
        return cls(
            directory=directory,
            train=directory / "train.tsv",
            valid=directory / "valid.tsv",
            test=directory / "test.tsv",
            pairs=pairs,
            left_out=left_out,
            already_there=already_there,
        )


@dataclass(frozen=True, kw_only=True)
class CorpusContents:
    """What a corpus folder is written from.

    Attributes:
        parts: the pairs of "train", "valid", "test", and of any further part.
        left_out: why pairs are in none of them, and how many.
        about: what the manifest has to say besides: licence, attribution, version.
        readme: README.md.
        licence: LICENSE, of texts that must not go without it.
    """

    parts: Mapping[str, Sequence[Pair]]
    left_out: Mapping[str, int]
    about: Mapping[str, object]
    readme: str
    licence: bytes | None = None


def find_or_make(folder: Path, identity: Mapping[str, object], make: Callable[[], CorpusContents]) -> CorpusFiles:
    """The corpus in `folder`, made first if there is no such folder.

    Args:
        identity: what decides the content: a folder made from the same is the same.
        make: gives the content, if there is no such folder.

    Raises CorpusError when something else lies there, StorageError when nothing can be written, and what `make` raises.
    """
    if (files := find(folder, identity)) is not None:
        return files
    made = make()
    counts = {part: len(pairs) for part, pairs in made.parts.items()}
    contents = {f"{part}.tsv": _tsv(pairs) for part, pairs in made.parts.items()}
    contents["README.md"] = made.readme.encode()
    if made.licence is not None:
        contents["LICENSE"] = made.licence
    write(folder, contents, {**identity, **made.about, "pairs": counts, "left_out": made.left_out})
    return CorpusFiles.below(folder, pairs=counts, left_out=made.left_out, already_there=False)


def sizes(parts: Mapping[str, Sequence[Pair]]) -> str:
    """For README.md: a line for each part."""
    return "\n".join(f"- `{part}.tsv`: {len(pairs):,} pairs" for part, pairs in parts.items())


def find(folder: Path, identity: Mapping[str, object]) -> CorpusFiles | None:
    """The corpus in `folder` if it was made from `identity` and is unchanged, None if no folder.

    Raises CorpusError when something else lies there: nobody's files are overwritten.
    """
    if not os.path.lexists(folder):
        return None
    advice = "remove it, or choose another directory"
    unknown = f"{folder} is there already, without the manifest of a fetched corpus; {advice}"
    try:
        manifest = read_json_object(folder / "manifest.json", missing=unknown, error=CorpusError)
        made_from = {key: manifest[key] for key in identity}
        changed = [name for name, sha256 in manifest["files"].items() if not _is(folder / name, sha256)]
        files = CorpusFiles.below(
            folder,
            pairs=manifest["pairs"],
            left_out=manifest["left_out"],
            already_there=True,
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CorpusError(unknown) from error
    if made_from != dict(identity):
        raise CorpusError(f"{folder} is there already, made from another release or other settings; {advice}")
    if changed:
        raise CorpusError(f"{folder} is there already, but {', '.join(changed)} changed after fetching; {advice}")
    return files


def write(folder: Path, contents: Mapping[str, bytes], manifest: Mapping[str, object]) -> None:
    """Write the files and manifest.json (`manifest` and the hash of each file), all or nothing."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    text = json.dumps({**manifest, "files": hashes}, ensure_ascii=False, indent=2) + "\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(folder) as staging:
            for name, content in {**contents, "manifest.json": text.encode()}.items():
                write_synced(staging / name, content)
    except OSError as error:
        raise StorageError(f"{folder}: the corpus cannot be written ({error.strerror})") from error


def _tsv(pairs: Sequence[Pair]) -> bytes:
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode()


def _is(path: Path, sha256: str) -> bool:
    return path.is_file() and file_sha256(path) == sha256
