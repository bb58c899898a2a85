"""The folder of a fetched corpus: written atomically, and identified by its manifest."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dragoman.corpora.download import file_sha256
from dragoman.data.readers import Pair
from dragoman.errors import CorpusError, StorageError
from dragoman.files import atomic_directory, read_json_object


@dataclass(frozen=True, kw_only=True)
class CorpusFiles:
    """Files of a fetched corpus.

    Attributes:
        directory: the folder.
        train: training data.
        valid: validation data.
        test: test data.
        pairs: number of pairs in each part: "train", "valid", "test" and possibly others; part X is in X.tsv.
        left_out: number of pairs that are in no part, by reason.
        already_there: True if the folder existed before.
    """

    directory: Path
    train: Path
    valid: Path
    test: Path
    pairs: Mapping[str, int]
    left_out: Mapping[str, int]
    already_there: bool

    @classmethod
    def in_directory(
        cls,
        directory: Path,
        *,
        pairs: Mapping[str, int],
        left_out: Mapping[str, int],
        already_there: bool,
    ) -> Self:
        """Return the files of a corpus folder; see the attributes of the class."""
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
    """Content of a corpus folder before it is written.

    Attributes:
        parts: pairs of each part: "train", "valid", "test" and possibly others.
        left_out: number of pairs that are in no part, by reason.
        about: additional entries of the manifest: licence, attribution, version.
        readme: content of README.md.
        licence: content of LICENSE, if the texts must be distributed with it.
    """

    parts: Mapping[str, Sequence[Pair]]
    left_out: Mapping[str, int]
    about: Mapping[str, object]
    readme: str
    licence: bytes | None = None


def find_or_make(folder: Path, identity: Mapping[str, object], make: Callable[[], CorpusContents]) -> CorpusFiles:
    """Return the corpus in `folder`; make it if the folder does not exist.

    Args:
        folder: the folder of the corpus.
        identity: entries of the manifest that determine the content: equal entries give equal files.
        make: function that returns the content; called only if the folder does not exist. Its errors are not caught.

    Raises:
        CorpusError: if the folder contains something else, see `find`.
        StorageError: if the folder cannot be written.
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
    return CorpusFiles.in_directory(folder, pairs=counts, left_out=made.left_out, already_there=False)


def sizes(parts: Mapping[str, Sequence[Pair]]) -> str:
    """Return a list of the parts with their numbers of pairs, for README.md."""
    return "\n".join(f"- `{part}.tsv`: {len(pairs):,} pairs" for part, pairs in parts.items())


def find(folder: Path, identity: Mapping[str, object]) -> CorpusFiles | None:
    """Return the corpus in `folder`, or None if the folder does not exist.

    Raises:
        CorpusError: if the folder exists, but was made from another identity, was changed, or is not a corpus. It is
            never overwritten.
    """
    manifest = checked_manifest(folder, identity, ("pairs", "left_out"))
    if manifest is None:
        return None
    return CorpusFiles.in_directory(
        folder,
        pairs=manifest["pairs"],
        left_out=manifest["left_out"],
        already_there=True,
    )


def checked_manifest(folder: Path, identity: Mapping[str, object], keys: Sequence[str]) -> dict[str, Any] | None:
    """Return the manifest of a corpus folder, or None if the folder does not exist.

    Args:
        folder: the folder.
        identity: entries that the manifest must have.
        keys: further entries that it must have, with any value.

    Raises:
        CorpusError: see `find`.
    """
    if not os.path.lexists(folder):
        return None
    advice = "remove it, or choose another directory"
    unknown = f"{folder} exists already, without the manifest of a fetched corpus; {advice}"
    try:
        manifest = read_json_object(folder / "manifest.json", missing=unknown, error=CorpusError)
        made_from = {key: manifest[key] for key in identity}
        _ = [manifest[key] for key in keys]
        changed = [name for name, sha256 in manifest["files"].items() if not _has_sha256(folder / name, sha256)]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise CorpusError(unknown) from error
    if made_from != dict(identity):
        raise CorpusError(f"{folder} exists already, made from another release or with other settings; {advice}")
    if changed:
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3:,} others" if len(changed) > 3 else "")
        raise CorpusError(f"{folder} exists already, but {names} changed after fetching; {advice}")
    return manifest


def write(folder: Path, contents: Mapping[str, bytes], manifest: Mapping[str, object]) -> None:
    """Write the files and manifest.json (`manifest` and the hash of each file) atomically.

    Args:
        folder: the folder.
        contents: content of each file, by its path in the folder, with "/".
        manifest: entries of the manifest.

    Raises:
        StorageError: if the folder cannot be written.
    """
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    text = json.dumps({**manifest, "files": hashes}, ensure_ascii=False, indent=2) + "\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with atomic_directory(folder) as staging:
            # `atomic_directory` waits until the files are on the disk.
            for name, content in {**contents, "manifest.json": text.encode()}.items():
                (staging / name).parent.mkdir(parents=True, exist_ok=True)
                (staging / name).write_bytes(content)
    except OSError as error:
        raise StorageError(f"{folder}: the corpus cannot be written ({error.strerror})") from error


def _tsv(pairs: Sequence[Pair]) -> bytes:
    return "".join(f"{pair.source}\t{pair.target}\n" for pair in pairs).encode()


def _has_sha256(path: Path, sha256: str) -> bool:
    return path.is_file() and file_sha256(path) == sha256
