"""Pictures in a folder as an array: every picture as a square of the same size.

A picture is rotated as its EXIF orientation states, its transparent areas become white, and its central square is cut
out and resized. Colour profiles are not applied.
"""

import math
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from dragoman.errors import CorpusError, SettingsError, reason_of
from dragoman.files import open_regular
from dragoman.printing import printable

Channels = Literal[1, 3]
Broken = Literal["refuse", "skip"]
Animated = Literal["refuse", "skip", "first frame"]

# Formats that Pillow may use, and the ends of file names that make a file a picture. The format is recognised by the
# content: a JPEG picture named .png is read.
FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
SUFFIXES = (".png", ".apng", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
# Limits against files made to exhaust memory: a decoded picture takes at most 4 bytes for each pixel.
LARGEST_PIXELS = 64_000_000
LARGEST_FILE = 1 << 28
LARGEST_SIZE = 4096

_ORIENTATION = 0x0112
_TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class AnimatedPictureError(CorpusError):
    """A picture has several frames or pages."""


class SkippedFile(NamedTuple):
    """A file or folder that is not in a `PictureSet`.

    Attributes:
        name: path in the folder that was read, with "/".
        reason: why it was skipped.
    """

    name: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class ReadingReport:
    """What `read_pictures` left out of a folder.

    Attributes:
        skipped: files and folders that were not read or cannot be used, in the order of their names.
    """

    skipped: tuple[SkippedFile, ...] = ()

    def table(self) -> str:
        """Return the number of skipped files by reason, and each file, as lines of plain text."""
        counts = Counter(reason for _, reason in self.skipped)
        lines = [f"{len(self.skipped):,} skipped"]
        for reason, count in counts.items():
            lines.append(f"  {count:,}: {printable(reason)}")
            lines += [f"      {printable(name)}" for name, its_reason in self.skipped if its_reason == reason]
        return "\n".join(lines)


# Without comparison: the truth value of an equality of arrays is ambiguous.
@dataclass(frozen=True, kw_only=True, eq=False)
class PictureSet:
    """Pictures of one size, possibly with labels.

    N is the number of pictures, S the size of their sides, C the number of channels: 1 (grey) or 3 (red, green, blue).

    Attributes:
        images: the pictures, uint8 [N, S, S, C].
        labels: index in `label_names` of the label of each picture, int64 [N]; None without labels.
        label_names: names of the labels; empty without labels.
        names: name of each picture: its path in the folder, with "/".
        report: what was left out when the pictures were read.
    """

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64] | None
    label_names: tuple[str, ...]
    names: tuple[str, ...]
    report: ReadingReport = ReadingReport()

    def __post_init__(self) -> None:
        shape = self.images.shape
        if self.images.dtype != np.uint8 or len(shape) != 4 or shape[1] != shape[2] or shape[3] not in (1, 3):
            raise CorpusError(f"pictures must be uint8 [N, S, S, 1 or 3], not {self.images.dtype} {list(shape)}")
        if 0 in shape:
            raise CorpusError("there are no pictures")
        if len(self.names) != len(self):
            raise CorpusError(f"there are {len(self):,} pictures, but {len(self.names):,} names")
        if (self.labels is None) != (not self.label_names):
            raise CorpusError("labels need names of labels, and the other way round")
        if self.labels is not None:
            if self.labels.dtype != np.int64 or self.labels.shape != (len(self),):
                raise CorpusError(f"labels must be int64 [{len(self)}], not {self.labels.dtype} {self.labels.shape}")
            if self.labels.min() < 0 or self.labels.max() >= len(self.label_names):
                raise CorpusError(f"a label is outside 0 to {len(self.label_names) - 1}")
            if len(set(self.label_names)) < len(self.label_names):
                raise CorpusError("two labels have the same name")

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.images)

    @property
    def size(self) -> int:
        """Number of pixels of a side."""
        return int(self.images.shape[1])

    @property
    def channels(self) -> int:
        """Number of channels: 1 or 3."""
        return int(self.images.shape[3])

    def spread(self, count: int) -> "PictureSet":
        """Return `count` pictures at equal steps from the first to the last, or all if there are fewer.

        Pictures are sorted by their labels, so that those at equal steps have different ones.

        Args:
            count: number of pictures, at least 1.
        """
        return self.subset(np.linspace(0, len(self) - 1, min(count, len(self))).round().astype(np.int64))

    def subset(self, indices: npt.NDArray[np.int64]) -> "PictureSet":
        """Return the pictures with these indices, with the same names of labels; they are copied."""
        return PictureSet(
            images=np.ascontiguousarray(self.images[indices]),
            labels=None if self.labels is None else np.ascontiguousarray(self.labels[indices]),
            label_names=self.label_names,
            names=tuple(self.names[index] for index in indices.tolist()),
            report=self.report,
        )


def read_pictures(
    folder: Path,
    size: int,
    *,
    channels: Channels,
    broken: Broken,
    animated: Animated,
    labels: Sequence[str] | None = None,
) -> PictureSet:
    """Read the pictures of a folder, sorted by their paths.

    If the pictures are in subfolders, the names of these are the labels; a label also contains the pictures in folders
    below its folder. If they are directly in the folder, there are no labels. Files that do not have the name of a
    picture (see `SUFFIXES`) and hidden files are skipped. Links to folders, and links to files outside the folder, are
    not followed.

    Args:
        folder: the folder.
        size: number of pixels of a side of the squares.
        channels: 1 for grey, 3 for red, green and blue.
        broken: what to do with files that have the name of a picture but cannot be read as one.
        animated: what to do with files of several frames or pages.
        labels: the labels, for example those of the training pictures; None for the names of the subfolders, sorted.

    Raises:
        CorpusError: if the folder cannot be read or contains no pictures, some are in subfolders and others are not, a
            subfolder is not in `labels`, or a picture is refused. The message names the first such file and their
            number.
        SettingsError: if an argument is outside its range.

    Example:
        >>> folder = Path("pictures/cat")
        >>> folder.mkdir(parents=True)
        >>> Image.new("RGB", (40, 30), "black").save(folder / "tom.png")
        >>> pictures = read_pictures(Path("pictures"), 16, channels=3, broken="refuse", animated="refuse")
        >>> pictures.images.shape, pictures.label_names, pictures.names
        ((1, 16, 16, 3), ('cat',), ('cat/tom.png',))
    """
    _check(size, channels, broken, animated)
    skipped: list[SkippedFile] = []
    paths = _candidates(folder, skipped)
    if not paths:
        raise CorpusError(f"{folder}: there are no pictures; the names of pictures end with {', '.join(SUFFIXES)}")
    label_names = _label_names(folder, paths, labels)
    images = np.empty((len(paths), size, size, channels), dtype=np.uint8)
    names: list[str] = []
    unusable: list[SkippedFile] = []
    refused = 0
    root = folder.resolve()
    for path in paths:
        try:
            images[len(names)] = _read(root, path, size, channels, animated)
        except CorpusError as error:
            policy = animated if isinstance(error, AnimatedPictureError) else broken
            if policy == "refuse" and not refused:
                # The message below names the first picture that is refused.
                unusable.insert(0, SkippedFile(str(path), str(error)))
            else:
                unusable.append(SkippedFile(str(path), str(error)))
            refused += policy == "refuse"
        else:
            names.append(str(path))
    if refused:
        raise CorpusError(
            f"{folder / unusable[0].name}: {unusable[0].reason}; {refused:,} of {len(paths):,} pictures cannot be "
            "used: remove them, or skip pictures that are broken or animated"
        )
    if not names:
        raise CorpusError(
            f"{folder}: none of its {len(paths):,} pictures can be used; the first is {unusable[0].name}: "
            f"{unusable[0].reason}"
        )
    skipped = sorted(skipped + unusable, key=lambda file: file.name.split("/"))
    index = {label: i for i, label in enumerate(label_names)}
    return PictureSet(
        images=images[: len(names)],
        labels=np.array([index[name.split("/")[0]] for name in names], dtype=np.int64) if label_names else None,
        label_names=label_names,
        names=tuple(names),
        report=ReadingReport(skipped=tuple(skipped)),
    )


def decode_picture(file: BinaryIO, size: int, *, channels: Channels, first_frame: bool) -> npt.NDArray[np.uint8]:
    """Return the central square of a picture, resized: [size, size, channels].

    The square is resized by Lanczos resampling, after averaging of blocks of pixels if it is much larger.

    Args:
        file: the file, of one of `FORMATS`.
        size: number of pixels of a side.
        channels: 1 for grey, 3 for red, green and blue.
        first_frame: take the first of several frames.

    Raises:
        AnimatedPictureError: if there are several frames or pages and `first_frame` is False.
        CorpusError: if the file cannot be decoded or has more than `LARGEST_PIXELS` pixels. The message does not
            contain the file's name.
    """
    try:
        with warnings.catch_warnings():
            # Warnings about damaged metadata, and about large pictures, for which there is an error below.
            warnings.simplefilter("ignore")
            with Image.open(file, formats=FORMATS) as picture:
                return _square(picture, size, channels, first_frame)
    except (CorpusError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise CorpusError(_too_large()) from error
    except UnidentifiedImageError as error:
        raise CorpusError(f"it is not a picture of one of the formats {', '.join(FORMATS)}") from error
    # Decoders raise errors of many classes for damaged files.
    except Exception as error:
        raise CorpusError(f"it cannot be decoded ({reason_of(error) or type(error).__name__})") from error


def _check(size: int, channels: Channels, broken: Broken, animated: Animated) -> None:
    if not 1 <= size <= LARGEST_SIZE:
        raise SettingsError(f"the size of pictures must be 1 to {LARGEST_SIZE} pixels, not {size}")
    for name, value, choices in (
        ("channels", channels, get_args(Channels)),
        ("broken", broken, get_args(Broken)),
        ("animated", animated, get_args(Animated)),
    ):
        if value not in choices:
            raise SettingsError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")


def _candidates(folder: Path, skipped: list[SkippedFile]) -> list[PurePosixPath]:
    """Return the paths, relative to the folder and sorted, of all files with names of pictures; append the others."""
    paths = []
    for path, entry in _entries(folder):
        name = str(path)
        if path.name.startswith("."):
            skipped.append(SkippedFile(name, "its name begins with a dot"))
        elif entry.is_dir(follow_symlinks=False):
            continue
        # Path.is_dir, unlike DirEntry.is_dir, is False for a loop of links.
        elif entry.is_symlink() and Path(entry.path).is_dir():
            skipped.append(SkippedFile(name, "it is a link to a folder"))
        elif path.suffix.lower() in SUFFIXES:
            paths.append(path)
        else:
            skipped.append(SkippedFile(name, "it does not have the name of a picture"))
    return sorted(paths, key=lambda path: path.parts)


def _entries(folder: Path) -> Iterator[tuple[PurePosixPath, "os.DirEntry[str]"]]:
    """Yield everything in a folder and its subfolders except hidden ones, with its path relative to the folder."""
    folders = [PurePosixPath()]
    while folders:
        parent = folders.pop()
        try:
            with os.scandir(folder / parent) as entries:
                for entry in entries:
                    path = parent / entry.name
                    if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                        folders.append(path)
                    yield path, entry
        except OSError as error:
            raise CorpusError(f"{folder / parent}: the folder cannot be read ({reason_of(error)})") from error


def _label_names(folder: Path, paths: Sequence[PurePosixPath], labels: Sequence[str] | None) -> tuple[str, ...]:
    direct = [path for path in paths if len(path.parts) == 1]
    below = [path for path in paths if len(path.parts) > 1]
    if direct and below:
        raise CorpusError(
            f"{folder}: {direct[0]} is directly in the folder, but {below[0]} is in a subfolder, whose name would "
            "be its label; move all pictures into subfolders, or none"
        )
    names = sorted({path.parts[0] for path in below})
    if labels is None:
        return tuple(names)
    if direct:
        raise CorpusError(f"{folder}: pictures must be in subfolders named after their labels, but {direct[0]} is not")
    if unknown := [name for name in names if name not in labels]:
        raise CorpusError(f"{folder / unknown[0]}: this label is not one of {', '.join(map(repr, labels))}")
    return tuple(labels)


def _read(root: Path, path: PurePosixPath, size: int, channels: Channels, animated: Animated) -> npt.NDArray[np.uint8]:
    """Return the picture at a path relative to `root`, which has no symbolic links."""
    try:
        target = root / path
        if target.is_symlink():
            target = target.resolve(strict=True)
            if not target.is_relative_to(root):
                raise CorpusError("it is a link to a file outside the folder")
        with open_regular(target, follow=False) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                raise CorpusError(f"it has more than {LARGEST_FILE:,} bytes")
            return decode_picture(file, size, channels=channels, first_frame=animated == "first frame")
    # RuntimeError: a loop of symbolic links.
    except (OSError, RuntimeError) as error:
        raise CorpusError(reason_of(error)) from error


def _square(picture: Image.Image, size: int, channels: Channels, first_frame: bool) -> npt.NDArray[np.uint8]:
    if math.prod(picture.size) > LARGEST_PIXELS:
        raise CorpusError(_too_large())
    # MPO is a JPEG file with further pictures, such as a preview, after the first.
    if getattr(picture, "is_animated", False) and picture.format != "MPO" and not first_frame:
        raise AnimatedPictureError("it has several frames or pages")
    # JPEG decodes faster to 1/2, 1/4 or 1/8 of the size; other formats ignore this.
    picture.draft(None, (2 * size, 2 * size))
    picture.load()
    # Pillow applies the orientation of TIFF files itself, and removes it.
    orientation = picture.getexif().get(_ORIENTATION, 1)
    image: Image.Image = picture
    if orientation in _TRANSPOSED:
        image = picture.transpose(_TRANSPOSED[orientation])
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    image = image.crop((left, top, left + side, top + side))
    image = _eight_bits(image).convert("L" if channels == 1 else "RGB")
    if side != size:
        image = image.resize((size, size), Image.Resampling.LANCZOS, reducing_gap=3.0)
    # [S, S] or [S, S, 3] -> [S, S, C]
    return np.asarray(image, dtype=np.uint8).reshape(size, size, channels)


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return the picture in a mode of at most 8 bits for each channel, on white ground."""
    if image.mode == "F":
        raise CorpusError("its pixels are floating-point numbers")
    transparent = image.info.get("transparency")
    if image.mode.startswith("I"):
        # [height, width]
        values: npt.NDArray[np.int64] = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() >= 2**16:
            raise CorpusError("its pixels have more than 16 bits")
        grey = ((values + 128) // 257).astype(np.uint8)
        if isinstance(transparent, int):
            grey[values == transparent] = 255
        return Image.fromarray(grey)
    if transparent is not None or image.mode in ("LA", "La", "PA", "RGBA", "RGBa"):
        rgba = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba).convert("RGB")
    # Pillow converts some modes to RGB, but not to L.
    return image if image.mode in ("1", "L") else image.convert("RGB")


def _too_large() -> str:
    return f"it has more than {LARGEST_PIXELS:,} pixels"
