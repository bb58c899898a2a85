"""Batches of pictures: every epoch is a permutation, resuming, mirrored pictures, pixels as numbers."""

from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dragoman.data.batching import Cursor
from dragoman.data.picture_batches import PictureBatch, PictureStream, picture_batch, to_bytes, to_unit
from dragoman.errors import CorpusError, SettingsError
from dragoman.training.objective import Batches
from tests.support.pictures import picture_set

COUNTS = st.integers(1, 40)
SIZES = st.integers(1, 50)
SEEDS = st.integers(0, 2**32)


def numbers(batch: PictureBatch) -> list[int]:
    """Return the numbers of the pictures of a batch of `picture_set`, which are not mirrored."""
    return (batch.images[:, 0, 0, 0].int() + 256 * batch.images[:, 0, 0, 1].int()).tolist()


def equal(first: PictureBatch, second: PictureBatch) -> bool:
    if first.labels is None or second.labels is None:
        return first.labels is second.labels and torch.equal(first.images, second.images)
    return torch.equal(first.images, second.images) and torch.equal(first.labels, second.labels)


def epoch_of(stream: PictureStream, epoch: int) -> list[list[int]]:
    batches = islice(stream.from_cursor(Cursor(epoch=epoch)), stream.batches_per_epoch)
    return [numbers(batch) for batch, _ in batches]


def test_a_stream_satisfies_the_interface_of_training() -> None:
    stream: Batches[PictureBatch] = PictureStream(pictures=picture_set(4, labels=2), batch_size=2, seed=0)
    batch, cursor = next(stream.from_cursor(Cursor()))
    assert cursor == Cursor(batch=1)
    assert batch.images.shape == stream.longest().images.shape == (2, 3, 4, 4)


@given(count=COUNTS, size=SIZES, seed=SEEDS, epoch=st.integers(0, 1000))
def test_an_epoch_is_a_permutation_less_its_incomplete_batch(count: int, size: int, seed: int, epoch: int) -> None:
    stream = PictureStream(pictures=picture_set(count, 2), batch_size=size, seed=seed)
    batches = epoch_of(stream, epoch)
    assert all(len(batch) == size for batch in batches)
    occurrences = np.bincount(np.concatenate(batches), minlength=count)
    if count >= size:
        assert occurrences.max() == 1
        assert occurrences.sum() == count - count % size
    else:
        assert len(batches) == 1
        assert set(occurrences) <= {size // count, size // count + 1}
        # The repeated pictures are as far apart as possible.
        assert batches[0][count:] == batches[0][: size - count]


@given(count=COUNTS, size=SIZES, seed=SEEDS, start=st.integers(0, 30), flips=st.booleans())
def test_resuming_at_any_cursor_gives_the_same_batches(
    count: int, size: int, seed: int, start: int, flips: bool
) -> None:
    stream = PictureStream(pictures=picture_set(count, 2, 1, labels=3), batch_size=size, seed=seed, flips=flips)
    whole = list(islice(stream.from_cursor(Cursor()), start + 3))
    cursor = whole[start - 1][1] if start else Cursor()
    for (batch, following), (expected, following_expected) in zip(
        islice(stream.from_cursor(cursor), 3), whole[start:], strict=True
    ):
        assert following == following_expected
        assert equal(batch, expected)
    epochs, batches = divmod(start + 3, stream.batches_per_epoch)
    assert following == Cursor(epoch=epochs, batch=batches)


def test_the_order_depends_on_seed_and_epoch() -> None:
    pictures = picture_set(300, 2)
    orders = [
        str(epoch_of(PictureStream(pictures=pictures, batch_size=30, seed=seed), epoch))
        for seed in (0, 1)
        for epoch in (0, 1, 2)
    ]
    assert len(set(orders)) == 6
    # All pictures occur, although each epoch leaves some out.
    stream = PictureStream(pictures=pictures, batch_size=299, seed=0)
    assert len({number for epoch in range(20) for [batch] in [epoch_of(stream, epoch)] for number in batch}) == 300


@given(seed=SEEDS, epoch=st.integers(0, 5))
def test_flips_mirror_about_half_of_the_pictures_and_nothing_else(seed: int, epoch: int) -> None:
    pictures = picture_set(200, labels=5)
    plain, flipped = (
        next(PictureStream(pictures=pictures, batch_size=200, seed=seed, flips=flips).from_cursor(Cursor(epoch=epoch)))[
            0
        ]
        for flips in (False, True)
    )
    mirrored = (flipped.images == plain.images.flip(3)).flatten(1).all(1)
    unchanged = (flipped.images == plain.images).flatten(1).all(1)
    assert bool((mirrored ^ unchanged).all())
    assert 55 < int(mirrored.sum()) < 145
    assert plain.labels is not None
    assert flipped.labels is not None
    assert torch.equal(plain.labels, flipped.labels)


def test_flips_differ_between_batches_and_epochs() -> None:
    pictures = picture_set(64, 2)
    stream = PictureStream(pictures=pictures, batch_size=32, seed=3, flips=True)
    plain = PictureStream(pictures=pictures, batch_size=32, seed=3)
    patterns = {
        tuple((flipped.images != batch.images).flatten(1).any(1).tolist())
        for (flipped, _), (batch, _) in zip(
            islice(stream.from_cursor(Cursor()), 6), islice(plain.from_cursor(Cursor()), 6), strict=True
        )
    }
    assert len(patterns) == 6


def test_the_pictures_are_not_changed() -> None:
    pictures = picture_set(8)
    before = pictures.images.copy()
    pictures.images.flags.writeable = False
    stream = PictureStream(pictures=pictures, batch_size=8, seed=0, flips=True)
    for batch, _ in islice(stream.from_cursor(Cursor()), 3):
        batch.images.zero_()
    assert np.array_equal(pictures.images, before)


def test_pixels_and_labels_of_a_batch() -> None:
    pictures = picture_set(10, labels=4)
    batch = picture_batch(pictures, np.array([7, 7, 2]))
    assert batch.images.dtype == torch.uint8
    assert batch.images.is_contiguous()
    assert batch.images[2, 1, 3, 0] == pictures.images[2, 3, 0, 1]
    assert batch.labels is not None
    assert batch.labels.dtype == torch.int64
    assert batch.labels.tolist() == [3, 3, 2]
    assert len(batch) == 3
    assert picture_batch(picture_set(2), np.array([0])).labels is None


def test_parts_of_a_batch_and_devices() -> None:
    batch = picture_batch(picture_set(6, labels=2), np.arange(6))
    part = batch.rows(2, 4)
    assert numbers(part) == [2, 3]
    assert part.labels is not None
    assert part.labels.tolist() == [0, 1]
    moved = batch.to("meta")
    assert moved.labels is not None
    assert {moved.images.device.type, moved.labels.device.type} == {"meta"}
    assert picture_batch(picture_set(2), np.arange(2)).to("cpu").rows(0, 1).labels is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="pinned memory needs a GPU")
def test_pinned_memory() -> None:
    batch = picture_batch(picture_set(6, labels=2), np.arange(6)).pin_memory()
    assert batch.images.is_pinned()
    assert equal(batch.to("cuda").to("cpu"), batch)


@pytest.mark.parametrize("cursor", [Cursor(batch=5), Cursor(window=1), Cursor(batch=-1), Cursor(epoch=-1)])
def test_a_cursor_of_other_pictures_is_an_error(cursor: Cursor) -> None:
    stream = PictureStream(pictures=picture_set(11, 2), batch_size=2, seed=0)
    with pytest.raises(CorpusError, match="is outside this corpus"):
        next(stream.from_cursor(cursor))


def test_settings_are_checked() -> None:
    with pytest.raises(SettingsError, match="at least 1 picture, not 0"):
        PictureStream(pictures=picture_set(2), batch_size=0, seed=0)
    with pytest.raises(SettingsError, match="at least 0, not -1"):
        PictureStream(pictures=picture_set(2), batch_size=1, seed=-1)


def test_all_bytes_survive_the_way_to_numbers_and_back() -> None:
    images = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    unit = to_unit(images)
    assert unit.dtype == torch.float32
    assert (unit.min().item(), unit.max().item()) == (-1, 1)
    assert torch.equal(to_bytes(unit), images)
    assert torch.equal(to_bytes(unit.double()), images)


def test_numbers_outside_the_range_are_clamped() -> None:
    assert to_bytes(torch.tensor([-torch.inf, -1.5, -1, 0, 1, 7, torch.inf])).tolist() == [0, 0, 0, 128, 255, 255, 255]
