"""Stored pictures: round trip, damage, and held-out pictures."""

import json
import mmap
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.picture_reading import PictureSet, ReadingReport, SkippedFile
from dragoman.data.picture_store import open_pictures, picture_digest, save_pictures, split_pictures
from dragoman.errors import CorpusError, SettingsError, StorageError
from tests.support.pictures import picture_set


def labelled() -> PictureSet:
    report = ReadingReport(skipped=(SkippedFile("a\n\udcff.png", "it is damaged"),))
    return replace(picture_set(7, labels=3), report=report)


@pytest.mark.parametrize("labels", [0, 3])
@pytest.mark.parametrize("channels", [1, 3])
def test_round_trip(tmp_path: Path, labels: int, channels: int) -> None:
    pictures = picture_set(7, 5, channels, labels)
    save_pictures(pictures, tmp_path / "store")
    opened = open_pictures(tmp_path / "store")
    assert np.array_equal(opened.images, pictures.images)
    if pictures.labels is None:
        assert opened.labels is None
    else:
        assert opened.labels is not None
        assert np.array_equal(opened.labels, pictures.labels)
    assert (opened.names, opened.label_names) == (pictures.names, pictures.label_names)
    assert (opened.size, opened.channels, len(opened)) == (5, channels, 7)
    assert np.array_equal(np.load(tmp_path / "store" / "images.npy", allow_pickle=False), pictures.images)


def test_the_images_are_mapped_and_read_only(tmp_path: Path) -> None:
    save_pictures(labelled(), tmp_path / "store")
    opened = open_pictures(tmp_path / "store")
    base: object = opened.images
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap.mmap)
    with pytest.raises(ValueError, match="read-only"):
        opened.images[0] = 0


def test_report_and_unusual_names_are_kept(tmp_path: Path) -> None:
    pictures = replace(labelled(), names=tuple(f"{i}\n\udcff\u2028.png" for i in range(7)))
    save_pictures(pictures, tmp_path / "store")
    opened = open_pictures(tmp_path / "store")
    assert opened.names == pictures.names
    assert opened.report == pictures.report


def test_an_opened_store_can_be_replaced_by_itself(tmp_path: Path) -> None:
    pictures = labelled()
    save_pictures(pictures, tmp_path / "store")
    save_pictures(open_pictures(tmp_path / "store"), tmp_path / "store")
    assert np.array_equal(open_pictures(tmp_path / "store").images, pictures.images)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]


def test_a_failure_leaves_the_former_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_pictures(labelled(), tmp_path / "store")

    def fail(*arguments: object, **options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(StorageError, match="is full"):
        save_pictures(picture_set(9), tmp_path / "store")
    assert len(open_pictures(tmp_path / "store")) == 7


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match=r"file/store: the pictures cannot be written \("):
        save_pictures(labelled(), tmp_path / "file" / "store")


def truncate(name: str, keep: float) -> Callable[[Path], object]:
    def change(store: Path) -> None:
        os.truncate(store / name, int(keep * (store / name).stat().st_size))

    return change


def edit(**changes: object) -> Callable[[Path], object]:
    def change(store: Path) -> None:
        meta = json.loads((store / "meta.json").read_bytes())
        (store / "meta.json").write_text(json.dumps(meta | changes))

    return change


def put(name: str, array: np.ndarray) -> Callable[[Path], object]:
    return lambda store: np.save(store / name, array)


def pipe(store: Path) -> None:
    (store / "images.npy").unlink()
    os.mkfifo(store / "images.npy")


def pickled(store: Path) -> None:
    np.save(store / "labels.npy", np.array([{}], dtype=object), allow_pickle=True)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no images": lambda store: (store / "images.npy").unlink(),
    "no labels": lambda store: (store / "labels.npy").unlink(),
    "no names": lambda store: (store / "files.json").unlink(),
    "a pipe": pipe,
    "pickled labels": pickled,
    "labels outside the range": put("labels.npy", np.full(7, 3)),
    "labels of another number": put("labels.npy", np.zeros(6, dtype=np.int64)),
    "labels of another type": put("labels.npy", np.zeros(7, dtype=np.float64)),
    "images of another type": put("images.npy", np.zeros((7, 4, 4, 3), dtype=np.int8)),
    "images of another order": put("images.npy", np.asfortranarray(np.zeros((7, 4, 4, 3), dtype=np.uint8))),
    "images of another size": put("images.npy", np.zeros((7, 5, 5, 3), dtype=np.uint8)),
    "flat images": put("images.npy", np.zeros(7 * 48, dtype=np.uint8)),
    "another version": edit(version=2),
    "an unknown key": edit(colour="red"),
    "labels that are no names": edit(label_names=[1, 2, 3]),
    "labels that are no list": edit(label_names="abc"),
    "too few labels": edit(label_names=["a", "b"]),
    "a number that is text": edit(pictures="7"),
    "names that are no text": lambda store: (store / "files.json").write_text('{"names": [1], "skipped": []}'),
    "names that are missing": lambda store: (store / "files.json").write_text("{}"),
    "skipped files of another form": lambda store: (store / "files.json").write_text('{"names": [], "skipped": [3]}'),
    "no JSON": lambda store: (store / "meta.json").write_text("{"),
    **{
        f"{name} cut to {keep}": truncate(name, keep)
        for name in ("images.npy", "labels.npy", "files.json", "meta.json")
        for keep in (0, 0.1, 0.5, 0.99)
    },
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_an_error(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    store = tmp_path / "store"
    save_pictures(labelled(), store)
    damage(store)
    with pytest.raises(StorageError, match="delete it and store the pictures again") as raised:
        open_pictures(store)
    assert str(raised.value).startswith(str(store))


def test_another_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="there are no stored pictures"):
        open_pictures(tmp_path)


# Held-out pictures


@given(seed=st.integers(0, 1000), share=st.floats(0.1, 0.8))
def test_equal_pictures_are_in_the_same_part(seed: int, share: float) -> None:
    pictures = picture_set(200, 2, labels=3)
    twice = PictureSet(
        images=np.concatenate([pictures.images, pictures.images[::-1]]),
        labels=np.arange(400) % 3,
        label_names=pictures.label_names,
        names=tuple(map(str, range(400))),
    )
    train, held_out = split_pictures(twice, share, seed=seed)
    assert len(train) + len(held_out) == 400
    assert abs(len(held_out) - 400 * share) < 120
    digests = [{picture_digest(image) for image in part.images} for part in (train, held_out)]
    assert digests[0].isdisjoint(digests[1])
    for part in (train, held_out):
        indices = np.array([int(name) for name in part.names])
        assert np.array_equal(part.images, twice.images[indices])
        assert part.labels is not None
        assert np.array_equal(part.labels, indices % 3)
    # The part does not depend on other pictures, and a larger share contains a smaller one.
    half = split_pictures(pictures, share, seed=seed).held_out
    assert {picture_digest(image) for image in half.images} == digests[1]
    assert set(half.names) <= set(split_pictures(pictures, 0.9, seed=seed).held_out.names)


def test_seeds_select_different_pictures() -> None:
    pictures = picture_set(100, 2)
    assert split_pictures(pictures, 0.5).held_out.names != split_pictures(pictures, 0.5, seed=1).held_out.names


def test_a_stored_set_can_be_split(tmp_path: Path) -> None:
    pictures = picture_set(50, 2)
    save_pictures(pictures, tmp_path / "store")
    parts = split_pictures(open_pictures(tmp_path / "store"), 0.3)
    assert parts.held_out.names == split_pictures(pictures, 0.3).held_out.names


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan")])
def test_shares_outside_the_range_are_refused(share: float) -> None:
    with pytest.raises(SettingsError, match="more than 0 and less than 1"):
        split_pictures(picture_set(5), share)


def test_an_empty_part_is_an_error() -> None:
    with pytest.raises(CorpusError, match=r"holds out none of the 3 pictures"):
        split_pictures(picture_set(3), 1e-9)
    with pytest.raises(CorpusError, match=r"holds out all of the 3 pictures"):
        split_pictures(picture_set(3), 1 - 1e-9)
