"""Folders of pictures that a trained model reads."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dragoman.data.picture_reading import PictureSet, read_pictures


def read_folder(
    folder: Path, size: int, channels: int, *, skip: bool, labels: Sequence[str] | None = None
) -> PictureSet:
    """Read the pictures of a folder as a model takes them; print on standard error which files were skipped.

    Args:
        folder: the folder.
        size: height and width of the pictures of the model.
        channels: number of channels of the pictures of the model.
        skip: True to skip pictures that cannot be read.
        labels: labels of the model, of which each picture must have one; None for any labels, and none.

    Raises:
        CorpusError: as in `read_pictures`.
    """
    pictures = read_pictures(
        folder,
        size,
        channels=1 if channels == 1 else 3,
        broken="skip" if skip else "refuse",
        animated="first frame",
        labels=labels,
    )
    if pictures.report.skipped:
        print(pictures.report.table(), file=sys.stderr)
    return pictures
