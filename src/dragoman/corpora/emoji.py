"""Colour emoji of Noto, 64 x 64 pixels, read from the published npm package emoji-datasource-google.

The package contains a picture of every emoji in every skin tone, and emoji.json, which describes them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from dragoman.corpora.npm import Package, package_identity, read_tarball, resolve_tarball
from dragoman.corpora.picture_folder import (
    LabelledPicture,
    PictureContents,
    PictureFiles,
    find_or_make_pictures,
    sizes_of_parts,
    split_by_pixels,
)
from dragoman.corpora.source import CorpusSource, OnProgress, no_progress
from dragoman.data.picture_reading import decode_picture
from dragoman.data.picture_store import picture_digest
from dragoman.errors import CorpusError

PACKAGE = Package(
    project="emoji-datasource-google",
    version="16.0.0",
    file_name="emoji-datasource-google-16.0.0.tgz",
    sha256="fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
    size=74_344_091,
)
SOURCE = CorpusSource(
    name="emoji",
    description="pictures of emoji in colour, 64 x 64 pixels with transparent ground; 1,900 pictures, the label is one "
    "of 9 categories, such as flags or food-drink",
    licence="Apache-2.0 (pictures); MIT (names and categories)",
    attribution="Google (Noto Emoji); Cal Henderson (emoji-data)",
    download_bytes=PACKAGE.size,
    kind="pictures",
)
SIDE = 64

# Version of the extraction: increase it when the same tarball gives other pictures.
_RECIPE = 1
_TEST_SHARE = 0.1
_VALID_SHARE = 0.05

_DESCRIPTION = "package/emoji.json"
_PACKAGE = "package/package.json"
_LICENCE = "package/LICENSE"
_PICTURES = f"package/img/google/{SIDE}/"
_NAME = re.compile(r"[0-9a-f]+(-[0-9a-f]+)*\.png")
# Code point sequence at the end of an emoji that faces right: zero-width joiner, right arrow, variation selector.
_FACING_RIGHT = "-200D-27A1-FE0F"
# The category of the five squares of skin colour, which are parts of other emoji.
_COMPONENTS = "Component"


@dataclass(frozen=True, kw_only=True)
class Emoji:
    """Content of a tarball.

    Attributes:
        version: version of the package.
        pictures: the pictures.
        names: name and subcategory of each picture, by file name.
        left_out: number of pictures left out, by reason.
        licence: text of the licence of names and categories.
    """

    version: str
    pictures: list[LabelledPicture]
    names: Mapping[str, tuple[str, str]]
    left_out: dict[str, int]
    licence: bytes


def fetch(directory: Path, tarball: Path | None = None, on_progress: OnProgress = no_progress) -> PictureFiles:
    """Make the pictures in directory/emoji/, split by a hash of their pixels.

    See `catalogue.fetch_pictures` for the arguments.

    Raises:
        CorpusError: if the download failed, the tarball is damaged, or see `find_or_make_pictures`.
        StorageError: if the folder or the cache cannot be written.
    """

    def make() -> PictureContents:
        path = resolve_tarball(PACKAGE, tarball, on_progress)
        on_progress(f"Reading {path.name} ...")
        return _contents(path)

    identity = {"corpus": SOURCE.name, "recipe": _RECIPE, **package_identity(PACKAGE, tarball)}
    return find_or_make_pictures(directory / SOURCE.name, identity, make, on_progress)


def extract(tarball: Path) -> Emoji:
    """Read the pictures from a tarball without installing it.

    The label is the category. Left out are the other skin tones of an emoji, the squares of skin colour (category
    "Component"), emoji that face right (mirrored forms of others), and pictures whose pixels are equal to those of an
    earlier one (for example, flags of islands that use the flag of a country).

    Raises:
        CorpusError: if the tarball is damaged, or is not a tarball of emoji-datasource-google.
    """
    files = dict(read_tarball(tarball, (_DESCRIPTION, _PACKAGE, _LICENCE, _PICTURES)))
    if missing := [name for name in (_DESCRIPTION, _PACKAGE, _LICENCE) if name not in files]:
        raise CorpusError(f"{tarball}: not a tarball of {PACKAGE.project} ({missing[0]} is missing)")
    left_out = {"other skin tone": 0, "square of skin colour": 0, "faces right": 0, "repeated picture": 0}
    pictures: list[LabelledPicture] = []
    names: dict[str, tuple[str, str]] = {}
    seen: set[str] = set()
    try:
        version = str(json.loads(files[_PACKAGE])["version"])
        for entry in _entries(json.loads(files[_DESCRIPTION])):
            skin_tones = entry.get("skin_variations", {}).values()
            left_out["other skin tone"] += sum(tone["has_img_google"] is True for tone in skin_tones)
            name = entry["image"]
            if entry["category"] == _COMPONENTS:
                left_out["square of skin colour"] += 1
                continue
            if entry["unified"].endswith(_FACING_RIGHT):
                left_out["faces right"] += 1
                continue
            file = files[_PICTURES + name]
            pixels = decode_picture(BytesIO(file), SIDE, channels=3, first_frame=False)
            digest = picture_digest(pixels)
            if digest in seen:
                left_out["repeated picture"] += 1
                continue
            seen.add(digest)
            pictures.append(LabelledPicture(name, _label(entry["category"]), file, digest))
            names[name] = (entry["name"], entry["subcategory"])
    # UserError is a ValueError; RecursionError is a RuntimeError.
    except (ValueError, LookupError, TypeError, AttributeError, RuntimeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CorpusError(f"{tarball}: a damaged tarball ({reason}); download it again") from error
    if len(names) < len(pictures):
        raise CorpusError(f"{tarball}: a damaged tarball (it describes a picture twice); download it again")
    return Emoji(version=version, pictures=pictures, names=names, left_out=left_out, licence=files[_LICENCE])


def _entries(description: Any) -> Iterator[dict[str, Any]]:
    """Yield the entries that have a picture, in the order of the file, after checking the texts in them.

    Raises:
        ValueError: if an entry has another form.
    """
    if not isinstance(description, list):
        raise ValueError(f"{_DESCRIPTION} is not a list")
    for entry in description:
        if entry["has_img_google"] is not True:
            continue
        # Some emoji have no name in Unicode.
        entry = {**entry, "name": entry["name"] or entry["short_name"]}
        for key in ("image", "unified", "category", "subcategory", "name"):
            if not isinstance(entry[key], str) or not entry[key].isprintable():
                raise ValueError(f"{_DESCRIPTION}: the entry {key!r} is not a line of text")
        if not _NAME.fullmatch(entry["image"]):
            raise ValueError(f"{_DESCRIPTION}: {entry['image'][:60]!r} is not the name of a picture")
        yield entry


def _label(category: str) -> str:
    """Return the name of the folder of a category: "Food & Drink" gives "food-drink"."""
    label = "-".join(re.findall(r"[a-z]+", category.lower()))
    if not label:
        raise ValueError(f"{_DESCRIPTION}: {category[:60]!r} is not the name of a category")
    return label


def _contents(tarball: Path) -> PictureContents:
    emoji = extract(tarball)
    parts = split_by_pixels(emoji.pictures, _TEST_SHARE, _VALID_SHARE, tarball.name)
    rows = [
        "\t".join((f"{part}/{picture.label}/{picture.name}", *emoji.names[picture.name]))
        for part, pictures in parts.items()
        for picture in pictures
    ]
    return PictureContents(
        parts=parts,
        left_out=emoji.left_out,
        about={"version": emoji.version, "licence": SOURCE.licence, "attribution": SOURCE.attribution},
        readme=_readme(tarball.name, sizes_of_parts(parts), emoji.left_out),
        licence=emoji.licence,
        tables={"names.tsv": "".join(f"{row}\n" for row in rows).encode()},
    )


def _readme(tarball_name: str, sizes: str, left_out: Mapping[str, int]) -> str:
    counts = "\n".join(f"- {reason}: {count:,}" for reason, count in left_out.items())
    return f"""# Emoji

The pictures of Noto Emoji by Google, under the Apache License 2.0
(https://www.apache.org/licenses/LICENSE-2.0), taken from the published package `{tarball_name}`
of the project emoji-data by Cal Henderson, whose names and categories are under the MIT licence: see `LICENSE`.

{sizes}

Each folder is a category; a file has the name of its code points. `names.tsv` contains the path, the name and the
subcategory of each picture. The ground is transparent.

The pictures are unchanged. Left out were, with the number of pictures:

{counts}

"Other skin tone" are the pictures of people in the five skin tones that can be chosen; the yellow ones are here. "Faces
right" are mirrored forms of emoji. The first of several pictures with equal pixels was kept.

The pictures of `valid/` and `test/` were selected by a hash of their pixels. Many emoji are similar to others, such as
men and women with the same occupation, and such pictures may be in different parts. `manifest.json` contains the
counts and the SHA-256 of the tarball and of every file.
"""
