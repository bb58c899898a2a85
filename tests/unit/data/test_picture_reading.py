"""Reading of folders of pictures: geometry, colours, labels, and files that are damaged or made to do harm."""

import os
import struct
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from dragoman.data.picture_reading import (
    LARGEST_FILE,
    Animated,
    Channels,
    PictureSet,
    SkippedFile,
    decode_picture,
    read_pictures,
)
from dragoman.errors import CorpusError, SettingsError
from tests.support.pictures import gradient, picture_set, save


def read(folder: Path, size: int = 8, channels: Channels = 3, animated: Animated = "refuse") -> PictureSet:
    return read_pictures(folder, size, channels=channels, broken="refuse", animated=animated)


def read_one(folder: Path, size: int, channels: Channels = 3) -> npt.NDArray[np.uint8]:
    pictures = read(folder, size, channels)
    assert len(pictures) == 1
    return pictures.images[0]


def reasons(folder: Path, animated: Animated = "skip") -> list[SkippedFile]:
    return list(read_pictures(folder, 8, channels=3, broken="skip", animated=animated).report.skipped)


def png_chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG file whose header promises a size, with pixels that are missing."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = png_chunk(b"IDAT", zlib.compress(bytes(100)))
    return b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + data + png_chunk(b"IEND", b"")


# Labels and order


def test_subfolders_are_labels_in_sorted_order(tmp_path: Path) -> None:
    for i, name in enumerate(["dog/b.png", "cat/z.png", "dog/a.png", "cat/young/a.png", "Ant/x.png"]):
        save(tmp_path / name, np.full((8, 8, 3), i, dtype=np.uint8))
    (tmp_path / "empty").mkdir()
    pictures = read(tmp_path)
    assert pictures.label_names == ("Ant", "cat", "dog")
    assert pictures.names == ("Ant/x.png", "cat/young/a.png", "cat/z.png", "dog/a.png", "dog/b.png")
    assert pictures.labels is not None
    assert pictures.labels.tolist() == [0, 1, 1, 2, 2]
    assert pictures.images[:, 0, 0, 0].tolist() == [4, 3, 1, 2, 0]
    assert pictures.images.shape == (5, 8, 8, 3)
    assert pictures.report.skipped == ()


def test_pictures_directly_in_the_folder_have_no_labels(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.png", "c.bmp"):
        save(tmp_path / name, gradient(8, 8))
    pictures = read(tmp_path)
    assert (pictures.labels, pictures.label_names) == (None, ())
    assert pictures.names == ("a.png", "b.PNG", "c.bmp")


def test_a_mixture_is_an_error(tmp_path: Path) -> None:
    save(tmp_path / "a.png", gradient(8, 8))
    save(tmp_path / "cat" / "b.png", gradient(8, 8))
    with pytest.raises(CorpusError, match=r"a\.png is directly in the folder, but cat/b\.png is in a subfolder"):
        read(tmp_path)


def test_given_labels_are_used_and_others_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "b" / "1.png", gradient(8, 8))
    pictures = read_pictures(tmp_path, 8, channels=1, broken="refuse", animated="refuse", labels=["c", "b", "a"])
    assert pictures.label_names == ("c", "b", "a")
    assert pictures.labels is not None
    assert pictures.labels.tolist() == [1]
    with pytest.raises(CorpusError, match="b: this label is not one of 'a'"):
        read_pictures(tmp_path, 8, channels=1, broken="refuse", animated="refuse", labels=["a"])
    with pytest.raises(CorpusError, match="must be in subfolders"):
        read_pictures(tmp_path / "b", 8, channels=1, broken="refuse", animated="refuse", labels=["a"])


def test_reading_twice_gives_the_same(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for i in range(6):
        image = draw.integers(256, size=(20 + i, 31 - i, 3), dtype=np.uint8)
        save(tmp_path / f"{i}.{('png', 'jpg', 'webp')[i % 3]}", image)
    first, second = read(tmp_path, 12), read(tmp_path, 12)
    assert np.array_equal(first.images, second.images)
    assert first.names == second.names


# Geometry


@pytest.mark.parametrize(("width", "height"), [(8, 8), (14, 8), (8, 15), (9, 8), (3000, 8)])
def test_the_central_square_is_cut_out(tmp_path: Path, width: int, height: int) -> None:
    image = gradient(width, height)
    save(tmp_path / "a.png", image)
    left, top = (width - 8) // 2, (height - 8) // 2
    assert np.array_equal(read_one(tmp_path, 8), image[top : top + 8, left : left + 8])


@pytest.mark.parametrize("side", [1, 2, 5, 31, 200])
@pytest.mark.parametrize("suffix", ["png", "jpg"])
def test_a_picture_of_one_colour_keeps_it_when_resized(tmp_path: Path, side: int, suffix: str) -> None:
    save(tmp_path / f"a.{suffix}", np.full((side, side + 3, 3), (200, 100, 50), dtype=np.uint8), quality=95)
    assert np.abs(read_one(tmp_path, 16).astype(int) - (200, 100, 50)).max() <= 2


def test_resizing_keeps_the_halves(tmp_path: Path) -> None:
    image = np.zeros((640, 640, 3), dtype=np.uint8)
    image[:, 320:] = 255
    save(tmp_path / "a.png", image)
    small = read_one(tmp_path, 16, 1)[:, :, 0]
    assert small[:, :7].max() <= 1
    assert small[:, 9:].min() >= 254


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", ["png", "tif", "webp"])
def test_the_orientation_of_exif_is_applied(tmp_path: Path, orientation: int, suffix: str) -> None:
    upright = gradient(9, 8)
    # The changes of the picture that each orientation undoes.
    stored = [
        upright, upright[:, ::-1], upright[::-1, ::-1], upright[::-1], upright.swapaxes(0, 1),
        np.rot90(upright), np.rot90(upright, 2).swapaxes(0, 1), np.rot90(upright, -1),
    ][orientation - 1]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    lossless: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    save(tmp_path / f"a.{suffix}", np.ascontiguousarray(stored), exif=exif, **lossless)
    assert np.array_equal(read_one(tmp_path, 8), upright[:, :8])


# Colours


def palette_with_transparency() -> Image.Image:
    picture = Image.new("P", (8, 8), 0)
    picture.putpalette([255, 0, 0, 0, 0, 255])
    picture.paste(1, (0, 0, 4, 8))
    return picture


def sixteen_bits() -> npt.NDArray[np.uint16]:
    return np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)


def test_transparent_areas_are_white(tmp_path: Path) -> None:
    rgba = np.zeros((8, 8, 4), dtype=np.uint8)
    rgba[:, :4] = (10, 20, 30, 255)
    rgba[0, 0] = (0, 0, 0, 128)
    save(tmp_path / "a.png", rgba)
    save(tmp_path / "b.png", palette_with_transparency(), transparency=0)
    save(tmp_path / "c.gif", palette_with_transparency(), transparency=0)
    save(tmp_path / "d.png", Image.fromarray(rgba).convert("LA"))
    save(tmp_path / "e.png", np.repeat(rgba[:, :, :1], 3, axis=2), transparency=(0, 0, 0))
    save(tmp_path / "f.png", rgba[:, :, 0], transparency=0)
    save(tmp_path / "g.webp", rgba, lossless=True)
    pictures = read(tmp_path)
    assert len(pictures) == 7
    assert (pictures.images[:, :, 4:] == 255).all()
    assert (pictures.images[:, 1:, :4, 0] < 30).all()
    assert pictures.images[0, 0, 0].tolist() == [127] * 3
    assert pictures.images[1, 2, 2].tolist() == [0, 0, 255]
    grey = read(tmp_path, channels=1)
    assert grey.images.shape == (7, 8, 8, 1)
    assert (grey.images[:, :, 4:] == 255).all()


def test_sixteen_bits_become_eight(tmp_path: Path) -> None:
    values = sixteen_bits()
    save(tmp_path / "a.png", values)
    save(tmp_path / "b.tif", values)
    save(tmp_path / "c.tif", values.astype(np.int32))
    pictures = read(tmp_path)
    expected = (values / 257).round().astype(np.uint8)
    assert (pictures.images == expected[None, :, :, None]).all()
    save(tmp_path / "a.png", values, transparency=0)
    assert read(tmp_path).images[0, 0, 0].tolist() == [255] * 3


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "LAB", "RGBX"])
@pytest.mark.parametrize("channels", [1, 3])
def test_other_modes_are_converted(tmp_path: Path, mode: str, channels: Channels) -> None:
    suffix = "png" if mode in ("1", "L", "P") else "tif"
    white = Image.new("RGB", (8, 8), "white")
    picture = Image.new("LAB", (8, 8), (255, 128, 128)) if mode == "LAB" else white.convert(mode)
    save(tmp_path / f"a.{suffix}", picture)
    assert (read_one(tmp_path, 8, channels) >= 254).all()


def test_cmyk_in_jpeg(tmp_path: Path) -> None:
    save(tmp_path / "a.jpg", Image.new("RGB", (8, 8), (255, 0, 0)).convert("CMYK"), quality=100)
    red, green, blue = read_one(tmp_path, 8)[4, 4].tolist()
    assert red > 245
    assert max(green, blue) < 10


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8), "floating-point numbers"),
        (np.full((8, 8), 70_000, dtype=np.int32), "more than 16 bits"),
        (np.full((8, 8), -1, dtype=np.int32), "more than 16 bits"),
    ],
)
def test_other_numbers_are_refused(tmp_path: Path, image: npt.NDArray[Any], reason: str) -> None:
    save(tmp_path / "a.tif", image)
    with pytest.raises(CorpusError, match=reason):
        read(tmp_path)


# Animation


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_animated_pictures(tmp_path: Path, suffix: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue", "green")]
    lossless = {"lossless": True} if suffix == "webp" else {}
    save(tmp_path / f"a.{suffix}", frames[0], save_all=True, append_images=frames[1:], **lossless)
    with pytest.raises(CorpusError, match=rf"a\.{suffix}: it has several frames or pages; 1 of 1 pictures"):
        read(tmp_path)
    assert (read(tmp_path, animated="first frame").images == (255, 0, 0)).all()
    with pytest.raises(CorpusError, match="none of its 1 pictures can be used"):
        read(tmp_path, animated="skip")
    save(tmp_path / "b.png", gradient(8, 8))
    assert reasons(tmp_path) == [(f"a.{suffix}", "it has several frames or pages")]


def test_a_jpeg_file_with_a_preview_is_not_animated(tmp_path: Path) -> None:
    picture = Image.new("RGB", (8, 8), "red")
    save(tmp_path / "a.jpg", picture, format="MPO", save_all=True, append_images=[picture.resize((4, 4))])
    assert read_one(tmp_path, 8).shape == (8, 8, 3)


# Damage


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.png", b"once upon a time", "it is not a picture of one of the formats PNG, JPEG"),
        ("a.jpg", b"", "it is not a picture"),
        ("a.png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is not a picture"),
        ("a.png", b"P6 2 2 255\n" + bytes(12), "it is not a picture"),
        ("a.png", png_header(0, 5), "it "),
        ("a.png", png_header(50, 50), "it cannot be decoded"),
        ("a.png", png_header(8001, 8000), "it has more than 64,000,000 pixels"),
        ("a.png", png_header(10_000, 10_000), "it has more than 64,000,000 pixels"),
        ("a.png", png_header(2**31 - 1, 2**31 - 1), "it has more than 64,000,000 pixels"),
        ("a.bmp", b"BM" + bytes(60), "it "),
        ("a.tif", b"II*\x00\x08\x00\x00\x00\x01\x00" + b"\xff" * 30, "it "),
        ("a.gif", b"GIF89a\xff\xff\xff\xff\x00\x00\x00,\x00\x00\x00\x00\xff\xff\xff\xff\x00\x0c", "it "),
        ("a.webp", b"RIFF\x10\x00\x00\x00WEBPVP8 ", "it "),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes, reason: str) -> None:
    (tmp_path / name).write_bytes(content)
    save(tmp_path / "z.png", gradient(8, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        [(skipped, found)] = reasons(tmp_path)
    assert skipped == name
    assert found.startswith(reason)
    assert "\n" not in found
    with pytest.raises(CorpusError, match="1 of 2 pictures cannot be used") as raised:
        read(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path / name}: {reason}")


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "bmp", "tif"])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_truncated_files(tmp_path: Path, suffix: str, share: float) -> None:
    draw = np.random.default_rng(0)
    path = save(tmp_path / f"a.{suffix}", draw.integers(256, size=(40, 40, 3), dtype=np.uint8))
    save(tmp_path / "z.png", gradient(8, 8))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    assert [name for name, _ in reasons(tmp_path)] == [path.name]


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif", "webp", "bmp", "tif"])
def test_damaged_bytes_raise_no_other_errors(tmp_path: Path, suffix: str) -> None:
    draw = np.random.default_rng(1)
    exif = Image.Exif()
    exif[0x0112] = 6
    options = {} if suffix in ("gif", "bmp") else {"exif": exif}
    path = save(tmp_path / f"a.{suffix}", draw.integers(256, size=(12, 12, 3), dtype=np.uint8), **options)
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    for _ in range(40):
        damaged = content.copy()
        # The beginning has the sizes and offsets.
        damaged[draw.integers(min(200, len(content)), size=3)] = draw.integers(256, size=3)
        path.write_bytes(damaged.tobytes())
        with path.open("rb") as file, suppress(CorpusError):
            assert decode_picture(file, 8, channels=3, first_frame=True).shape == (8, 8, 3)


def test_the_first_refused_file_and_the_number(tmp_path: Path) -> None:
    for name in ("a/1.png", "a/2.png", "b/3.png"):
        save(tmp_path / name, gradient(8, 8))
    for name in ("b/0.png", "a/4.png", "a/5.png"):
        (tmp_path / name).write_bytes(b"no picture")
    with pytest.raises(CorpusError, match=r"a/4\.png: .*; 3 of 6 pictures cannot be used"):
        read(tmp_path)
    pictures = read_pictures(tmp_path, 8, channels=3, broken="skip", animated="refuse")
    assert pictures.names == ("a/1.png", "a/2.png", "b/3.png")
    assert [name for name, _ in pictures.report.skipped] == ["a/4.png", "a/5.png", "b/0.png"]
    assert pictures.report.table().startswith("3 skipped\n  3: it is not a picture of one of the formats")


def test_a_label_without_usable_pictures_remains_a_label(tmp_path: Path) -> None:
    save(tmp_path / "b" / "1.png", gradient(8, 8))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"")
    pictures = read_pictures(tmp_path, 8, channels=3, broken="skip", animated="refuse")
    assert pictures.label_names == ("a", "b")
    assert pictures.labels is not None
    assert pictures.labels.tolist() == [1]


# Other files


def test_what_is_not_a_picture_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a.png", gradient(8, 8))
    save(tmp_path / ".hidden" / "b.png", gradient(8, 8))
    (tmp_path / ".DS_Store").write_bytes(b"")
    (tmp_path / "README\x1b.md").write_bytes(b"")
    pictures = read(tmp_path)
    assert pictures.names == ("a.png",)
    assert pictures.report.skipped == (
        SkippedFile(".DS_Store", "its name begins with a dot"),
        SkippedFile(".hidden", "its name begins with a dot"),
        SkippedFile("README\x1b.md", "it does not have the name of a picture"),
    )
    assert r"README\x1b.md" in pictures.report.table()


def test_links_and_special_files(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    save(folder / "a" / "1.png", gradient(8, 8))
    save(tmp_path / "outside.png", gradient(8, 8))
    (folder / "a" / "2.png").symlink_to("1.png")
    (folder / "a" / "3.png").symlink_to(tmp_path / "outside.png")
    (folder / "a" / "4.png").symlink_to("missing.png")
    (folder / "a" / "5.png").symlink_to("5.png")
    (folder / "a" / "6.png").symlink_to("/dev/zero")
    os.mkfifo(folder / "a" / "7.png")
    (folder / "b").symlink_to(folder / "a")
    (folder / "c").symlink_to(folder)
    (folder / "d").symlink_to("d")
    pictures = read_pictures(folder, 8, channels=3, broken="skip", animated="refuse")
    assert pictures.names == ("a/1.png", "a/2.png")
    found = dict(pictures.report.skipped)
    assert list(found) == ["a/3.png", "a/4.png", "a/5.png", "a/6.png", "a/7.png", "b", "c", "d"]
    assert found["a/3.png"] == found["a/6.png"] == "it is a link to a file outside the folder"
    assert found["a/7.png"] == "it is not a regular file"
    assert found["b"] == found["c"] == "it is a link to a folder"
    with pytest.raises(CorpusError, match="5 of 7 pictures cannot be used"):
        read(folder)


def test_a_folder_that_is_a_link_is_read(tmp_path: Path) -> None:
    save(tmp_path / "folder" / "a.png", gradient(8, 8))
    (tmp_path / "folder" / "b.png").symlink_to("a.png")
    (tmp_path / "link").symlink_to("folder")
    assert len(read(tmp_path / "link")) == 2


def test_a_file_of_many_bytes_is_not_read(tmp_path: Path) -> None:
    save(tmp_path / "a.png", gradient(8, 8))
    with (tmp_path / "b.webp").open("wb") as file:
        file.write(b"RIFF\xff\xff\xff\xffWEBPVP8X")
        file.truncate(LARGEST_FILE + 1)
    assert reasons(tmp_path) == [("b.webp", "it has more than 268,435,456 bytes")]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    save(tmp_path / os.fsdecode(b"a\xff.png"), gradient(8, 8), format="PNG")
    pictures = read(tmp_path)
    assert pictures.names == ("a\udcff.png",)


def make_folder(path: Path) -> None:
    path.mkdir()


def make_text(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_bytes(b"")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, r"the folder cannot be read \(No such file or directory\)"),
        (lambda path: path.write_bytes(b""), r"the folder cannot be read \(Not a directory\)"),
        (make_folder, "there are no pictures"),
        (make_text, "there are no pictures"),
    ],
)
def test_folders_without_pictures(tmp_path: Path, make: Callable[[Path], object], message: str) -> None:
    make(tmp_path / "folder")
    with pytest.raises(CorpusError, match=message):
        read(tmp_path / "folder")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "must be 1 to 4096 pixels, not 0"),
        ({"size": 5000}, "not 5000"),
        ({"channels": 4}, "channels must be one of 1, 3, not 4"),
        ({"broken": "ignore"}, "broken must be one of 'refuse', 'skip', not 'ignore'"),
        ({"animated": "all"}, "animated must be one of"),
    ],
)
def test_bad_arguments(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"size": 8, "channels": 3, "broken": "skip", "animated": "skip"}
    with pytest.raises(SettingsError, match=message):
        read_pictures(tmp_path, **arguments | options)


# Sets


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": np.zeros((2, 4, 4, 3), dtype=np.float32)}, "must be uint8"),
        ({"images": np.zeros((2, 4, 5, 3), dtype=np.uint8)}, r"not uint8 \[2, 4, 5, 3\]"),
        ({"images": np.zeros((0, 4, 4, 3), dtype=np.uint8)}, "there are no pictures"),
        ({"names": ("a",)}, "2 pictures, but 1 names"),
        ({"labels": None}, "labels need names"),
        ({"label_names": ()}, "labels need names"),
        ({"labels": np.array([0])}, "labels must be int64"),
        ({"labels": np.array([0, 2])}, "outside 0 to 1"),
        ({"labels": np.array([0, -1])}, "outside 0 to 1"),
        ({"label_names": ("x", "x")}, "the same name"),
    ],
)
def test_sets_are_checked(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "images": np.zeros((2, 4, 4, 3), dtype=np.uint8),
        "labels": np.array([0, 1]),
        "label_names": ("x", "y"),
        "names": ("a", "b"),
    }
    PictureSet(**arguments)
    with pytest.raises(CorpusError, match=message):
        PictureSet(**arguments | changes)


@pytest.mark.parametrize(
    ("count", "expected"), [(1, [0]), (2, [0, 9]), (4, [0, 3, 6, 9]), (10, list(range(10))), (99, list(range(10)))]
)
def test_pictures_at_equal_steps(count: int, expected: list[int]) -> None:
    pictures = picture_set(10, labels=2)
    spread = pictures.spread(count)
    assert spread.names == tuple(pictures.names[i] for i in expected)
    assert np.array_equal(spread.images, pictures.images[expected])
