"""Small handwritten digits: 8 x 8 pixels, read from the published wheel of scikit-learn."""

import re
from pathlib import Path

from dragoman.corpora.download import Release
from dragoman.corpora.picture_folder import LabelledPicture, PictureFiles, sizes_of_parts
from dragoman.corpora.pixel_table import PixelTable, fetch_table
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress

RELEASE = Release(
    project="scikit-learn",
    version="1.9.1",
    file_name="scikit_learn-1.9.1-cp311-cp311-manylinux_2_27_x86_64.manylinux_2_28_x86_64.whl",
    sha256="52a0703bbc07ad27f560fa63fa68e4c54dd735bfbbf65b4dd3c225dc7547b6df",
    size=9_315_422,
    python="3.11",
    platform="manylinux_2_28_x86_64",
)
SOURCE = CorpusSource(
    name="digits",
    description="pictures of handwritten digits, 8 x 8 pixels in grey; 1,797 pictures, the label is the digit",
    licence="BSD-3-Clause (scikit-learn); CC BY 4.0 (the data, UCI)",
    attribution="E. Alpaydin and C. Kaynak, UCI Machine Learning Repository; the scikit-learn developers",
    download_bytes=RELEASE.size,
    kind="pictures",
)


def fetch(directory: Path, wheel: Path | None = None, on_progress: OnProgress = no_progress) -> PictureFiles:
    """Make the pictures in directory/digits/.

    See `catalogue.fetch_pictures` for the arguments, `fetch_table` for the errors.
    """
    return fetch_table(_TABLE, directory, wheel, on_progress)


def _readme(wheel_name: str, parts: dict[str, list[LabelledPicture]]) -> str:
    return f"""# Handwritten digits, 8 x 8

The test part of "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (UCI Machine
Learning Repository, CC BY 4.0), taken from a published wheel of scikit-learn (BSD-3-Clause: see `LICENSE`),
`{wheel_name}`.

{sizes_of_parts(parts)}

Each folder has the name of a digit. A file has the number of its line in the original table, from 0.

Changes to the original: pixels from 0 to 16 became grey values from 0 (black, the ground) to 255.
The pictures of `valid/` and `test/` were selected by a hash of their pixels, so that equal pictures
are in the same part. Their writers are not known: a writer may occur in several parts.
`manifest.json` contains the counts and the SHA-256 of the wheel and of every file.
"""


_TABLE = PixelTable(
    source=SOURCE,
    release=RELEASE,
    recipe=1,
    member="sklearn/datasets/data/digits.csv.gz",
    metadata=re.compile(r"scikit_learn-([^/]+)\.dist-info/METADATA"),
    licence=re.compile(r"scikit_learn-[^/]+\.dist-info/(licenses/)?COPYING"),
    side=8,
    largest=16,
    readme=_readme,
)
