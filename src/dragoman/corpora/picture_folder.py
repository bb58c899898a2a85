"""The folder of a fetched set of pictures: train/, valid/ and test/, each with a folder of PNG files for each label."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
from PIL import Image

from dragoman.corpora.folder import checked_manifest, write
from dragoman.corpora.holdout import part_of
from dragoman.corpora.source import OnProgress
from dragoman.data.picture_store import picture_digest
from dragoman.errors import CorpusError

PARTS = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class PictureFiles:
    """Files of a fetched set of pictures.

    Attributes:
        directory: the folder.
        train: folder of the training pictures, with a subfolder for each label.
        valid: folder of the validation pictures.
        test: folder of the test pictures.
        pictures: number of pictures of each part: "train", "valid", "test".
        labels: the labels, sorted. A small part may lack pictures of some of them.
        left_out: number of pictures that are in no part, by reason.
        already_there: True if the folder existed before.
    """

    directory: Path
    train: Path
    valid: Path
    test: Path
    pictures: Mapping[str, int]
    labels: tuple[str, ...]
    left_out: Mapping[str, int]
    already_there: bool

    @classmethod
    def in_directory(cls, directory: Path, manifest: Mapping[str, Any], *, already_there: bool) -> Self:
        """Return the files of a folder with this manifest."""
        return cls(
            directory=directory,
            train=directory / "train",
            valid=directory / "valid",
            test=directory / "test",
            pictures=manifest["pictures"],
            labels=tuple(manifest["labels"]),
            left_out=manifest["left_out"],
            already_there=already_there,
        )


class LabelledPicture(NamedTuple):
    """A picture before it is written.

    Attributes:
        name: name of the file.
        label: label, which is the name of a folder.
        file: content of the PNG file.
        digest: hash of its pixels, which determines its part.
    """

    name: str
    label: str
    file: bytes
    digest: str


@dataclass(frozen=True, kw_only=True)
class PictureContents:
    """Content of a folder before it is written.

    Attributes:
        parts: the pictures of each part.
        left_out: number of pictures that are in no part, by reason.
        about: additional entries of the manifest: licence, attribution, version.
        readme: content of README.md.
        licence: content of LICENSE.
        tables: content of other files, by name.
    """

    parts: Mapping[str, Sequence[LabelledPicture]]
    left_out: Mapping[str, int]
    about: Mapping[str, object]
    readme: str
    licence: bytes
    tables: Mapping[str, bytes] = field(default_factory=dict)


def find_or_make_pictures(
    folder: Path, identity: Mapping[str, object], make: Callable[[], PictureContents], on_progress: OnProgress
) -> PictureFiles:
    """Return the pictures in `folder`; make them if the folder does not exist.

    Args:
        folder: the folder.
        identity: entries of the manifest that determine the content: equal entries give equal pictures.
        make: function that returns the content; called only if the folder does not exist. Its errors are not caught.
        on_progress: called before the files are written.

    Raises:
        CorpusError: if the folder contains something else, was changed, or has other files among the pictures.
        StorageError: if the folder cannot be written.
    """
    manifest = checked_manifest(folder, identity, ("pictures", "labels", "left_out"))
    if manifest is not None:
        present = {path.relative_to(folder).as_posix() for part in PARTS for path in (folder / part).rglob("*.*")}
        if added := sorted(present - set(manifest["files"])):
            raise CorpusError(
                f"{folder} exists already, but {added[0]} was added after fetching; remove it, or choose another "
                "directory"
            )
        return PictureFiles.in_directory(folder, manifest, already_there=True)
    made = make()
    contents = {
        f"{part}/{picture.label}/{picture.name}": picture.file
        for part, pictures in made.parts.items()
        for picture in pictures
    }
    assert len(contents) == sum(map(len, made.parts.values()))
    on_progress(f"Writing {len(contents):,} pictures ...")
    contents |= {"README.md": made.readme.encode(), "LICENSE": made.licence, **made.tables}
    manifest = {
        **identity,
        **made.about,
        "pictures": {part: len(pictures) for part, pictures in made.parts.items()},
        "labels": sorted({picture.label for pictures in made.parts.values() for picture in pictures}),
        "left_out": dict(made.left_out),
    }
    write(folder, contents, manifest)
    return PictureFiles.in_directory(folder, manifest, already_there=False)


def split_by_pixels(
    pictures: Sequence[LabelledPicture], test_share: float, valid_share: float, origin: str
) -> dict[str, list[LabelledPicture]]:
    """Return the pictures of each part, selected by a hash of their pixels: equal pictures are in the same part.

    Args:
        pictures: the pictures.
        test_share: fraction of test pictures.
        valid_share: fraction of validation pictures.
        origin: name of the file that they come from, for the message.

    Raises:
        CorpusError: if there are too few pictures for a part.
    """
    parts: dict[str, list[LabelledPicture]] = {part: [] for part in PARTS}
    for picture in pictures:
        parts[part_of(picture.digest, test_share, valid_share)].append(picture)
    if not all(parts.values()):
        raise CorpusError(f"{origin} has too few pictures for training, validation and test data ({len(pictures)})")
    return parts


def as_picture(name: str, label: str, image: npt.NDArray[np.uint8]) -> LabelledPicture:
    """Return the picture with these pixels: [S, S] in grey."""
    file = BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return LabelledPicture(name, label, file.getvalue(), picture_digest(image))


def sizes_of_parts(parts: Mapping[str, Sequence[LabelledPicture]]) -> str:
    """Return a list of the parts with their numbers of pictures, in all and by label, for README.md."""
    lines = []
    for part, pictures in parts.items():
        counts = sorted(Counter(picture.label for picture in pictures).items())
        by_label = ", ".join(f"{label} {count:,}" for label, count in counts)
        lines.append(f"- `{part}/`: {len(pictures):,} pictures ({by_label})")
    return "\n".join(lines)
