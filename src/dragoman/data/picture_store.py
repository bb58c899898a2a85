"""Pictures stored in a directory, memory-mapped, and held-out pictures.

The directory contains:

    images.npy   uint8 [N, S, S, C]
    labels.npy   int64 [N]; only if the pictures have labels
    files.json   names of the pictures, and of the files that were skipped when they were read
    meta.json    counts, names of the labels, the version of this layout
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dragoman.data.flat_array import map_array
from dragoman.data.picture_reading import PictureSet, ReadingReport, SkippedFile
from dragoman.data.splitting import is_selected
from dragoman.errors import CorpusError, SettingsError, StorageError, reason_of
from dragoman.files import explain_full_disk, parse_json_object, read_json_object, read_regular, replaced_directory

VERSION = 1
# Names of more than a million pictures.
_LARGEST_NAMES = 1 << 28


@dataclass(frozen=True, kw_only=True)
class PictureMeta:
    """Content of meta.json.

    Attributes:
        pictures: number of pictures.
        size: number of pixels of a side.
        channels: number of channels: 1 or 3.
        label_names: names of the labels; empty without labels.
        version: version of the layout.
    """

    pictures: int
    size: int
    channels: int
    label_names: tuple[str, ...]
    version: int = VERSION


class PictureParts(NamedTuple):
    """Pictures for training, and held-out ones."""

    train: PictureSet
    held_out: PictureSet


def save_pictures(pictures: PictureSet, directory: Path) -> None:
    """Write pictures into a directory, which is replaced atomically.

    Raises:
        StorageError: if the directory cannot be written.
    """
    meta = PictureMeta(
        pictures=len(pictures),
        size=pictures.size,
        channels=pictures.channels,
        label_names=pictures.label_names,
    )
    files = {"names": pictures.names, "skipped": pictures.report.skipped}
    try:
        with explain_full_disk(directory.parent), replaced_directory(directory) as new:
            np.save(new / "images.npy", np.ascontiguousarray(pictures.images), allow_pickle=False)
            if pictures.labels is not None:
                np.save(new / "labels.npy", pictures.labels, allow_pickle=False)
            (new / "files.json").write_text(json.dumps(files, indent=0) + "\n", encoding="ascii")
            (new / "meta.json").write_text(json.dumps(asdict(meta), indent=2) + "\n", encoding="ascii")
    except OSError as error:
        raise StorageError(f"{directory}: the pictures cannot be written ({reason_of(error)})") from error


def open_pictures(directory: Path) -> PictureSet:
    """Memory-map the pictures that `save_pictures` wrote, without reading them.

    Raises:
        StorageError: if the directory does not contain stored pictures, or is damaged.
    """
    advice = "delete it and store the pictures again"
    content = read_json_object(
        directory / "meta.json",
        missing=f"{directory}: there are no stored pictures (meta.json is missing)",
        error=StorageError,
        advice=advice,
    )
    try:
        meta = _meta(content)
        images, _ = map_array(directory / "images.npy", (np.uint8,), dimensions=4)
        expected = (meta.pictures, meta.size, meta.size, meta.channels)
        if images.shape != expected:
            raise ValueError(f"images.npy has the shape {images.shape}, expected {expected}")
        names, skipped = _files(parse_json_object(read_regular(directory / "files.json", _LARGEST_NAMES)))
        return PictureSet(
            images=images,
            labels=map_array(directory / "labels.npy", (np.int64,), dimensions=1)[0] if meta.label_names else None,
            label_names=meta.label_names,
            names=names,
            report=ReadingReport(skipped=skipped),
        )
    # UserError is a ValueError.
    except (OSError, ValueError, TypeError, LookupError) as error:
        raise StorageError(f"{directory}: its pictures are damaged ({error}); {advice}") from error


def split_pictures(pictures: PictureSet, share: float, *, seed: int = 0) -> PictureParts:
    """Split off a share of the pictures, selected by a hash of their bytes.

    Equal pictures are always in the same part, and the part of a picture does not depend on the other pictures. A
    larger share contains every smaller one.

    Args:
        pictures: the pictures.
        share: fraction of the pictures to hold out, approximately: more than 0 and less than 1.
        seed: seed of the hash.

    Raises:
        SettingsError: if the share is outside its range.
        CorpusError: if one of the parts would be empty.
    """
    if not 0 < share < 1:
        raise SettingsError(f"the share of held-out pictures must be more than 0 and less than 1, not {share}")
    held_out = np.array([is_selected(picture_digest(image), share, seed) for image in pictures.images])
    if held_out.all() or not held_out.any():
        part = "all" if held_out.all() else "none"
        raise CorpusError(
            f"a share of {share} holds out {part} of the {len(pictures):,} pictures; use another share or more pictures"
        )
    return PictureParts(pictures.subset(np.flatnonzero(~held_out)), pictures.subset(np.flatnonzero(held_out)))


def picture_digest(image: np.ndarray[Any, np.dtype[np.uint8]]) -> str:
    """Return a hash of the pixels of a picture [S, S, C], in hexadecimal."""
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).hexdigest()


def _meta(content: Mapping[str, Any]) -> PictureMeta:
    labels = content.get("label_names")
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise ValueError("meta.json has no names of labels")
    meta = PictureMeta(**{**content, "label_names": tuple(labels)})
    if meta.version != VERSION:
        raise ValueError(f"expected layout version {VERSION}, found {meta.version}")
    return meta


def _files(content: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[SkippedFile, ...]]:
    """Return names and skipped files from the content of files.json."""
    names, skipped = tuple(content["names"]), tuple(SkippedFile(*file) for file in content["skipped"])
    if not all(isinstance(text, str) for text in (*names, *(text for file in skipped for text in file))):
        raise ValueError("files.json contains something else than names")
    return names, skipped
