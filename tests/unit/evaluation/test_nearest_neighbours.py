"""Nearest neighbours in blocks, and the test of copying."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dragoman.errors import CorpusError, SettingsError
from dragoman.evaluation import nearest_neighbours as module
from dragoman.evaluation.nearest_neighbours import copying_test, nearest_neighbours


def naive(
    queries: NDArray[np.float64], training: NDArray[np.float64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    distances = np.sqrt(((queries[:, None] - training[None]) ** 2).sum(axis=-1))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(distances, order, axis=1)


@given(seed=st.integers(0, 10_000), queries=st.integers(1, 12), training=st.integers(1, 25), width=st.integers(1, 6))
def test_blocks_equal_the_naive_result_with_ties(seed: int, queries: int, training: int, width: int) -> None:
    """Few different integers give many equal distances."""
    draw = np.random.default_rng(seed)
    asked = draw.integers(0, 3, (queries, width)).astype(np.float64)
    known = draw.integers(0, 3, (training, width)).astype(np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "QUERY_BLOCK", 5)
        patch.setattr(module, "REFERENCE_BLOCK", 4)
        for k in (1, (training + 1) // 2, training):
            indices, distances = nearest_neighbours(asked, known, k)
            expected_indices, expected_distances = naive(asked, known, k)
            assert indices.tolist() == expected_indices.tolist()
            np.testing.assert_allclose(distances, expected_distances, rtol=1e-12)


def test_pixels_are_exact() -> None:
    """A copy has the distance 0, and a copy with one pixel changed by one level has the distance 1."""
    draw = np.random.default_rng(1)
    training = draw.integers(0, 256, (300, 3072), dtype=np.uint8)
    training[:, 0] = 7
    queries = training[[5, 250]]
    queries[1, 0] += 1
    indices, distances = nearest_neighbours(queries, training, 2)
    assert indices[:, 0].tolist() == [5, 250]
    assert distances[:, 0].tolist() == [0.0, 1.0]
    assert (distances[:, 1] > 1000).all()


def test_copies_of_features_far_from_the_origin() -> None:
    training = np.random.default_rng(2).normal(1e4, 1.0, (100, 64))
    indices, distances = nearest_neighbours(training[::-1], training, 1)
    assert indices[:, 0].tolist() == list(range(100))[::-1]
    assert (distances == 0).all()


def test_neighbours_that_cannot_be_computed() -> None:
    rows = np.zeros((3, 2))
    with pytest.raises(SettingsError, match="k is 4; expected 1 to 3"):
        nearest_neighbours(rows, rows, 4)
    with pytest.raises(SettingsError, match="k is 0"):
        nearest_neighbours(rows, rows, 0)
    with pytest.raises(CorpusError, match="0 query pictures"):
        nearest_neighbours(rows[:0], rows, 1)
    with pytest.raises(CorpusError, match="of 2 and of 1 values"):
        nearest_neighbours(rows, rows[:, :1], 1)
    with pytest.raises(CorpusError, match="training picture 1 has a value that is not finite"):
        nearest_neighbours(rows, np.full((3, 2), np.nan), 1)


def test_a_generator_that_copies_is_found() -> None:
    draw = np.random.default_rng(3)
    training, held_out, new = (draw.normal(size=(rows, 10)) for rows in (400, 200, 200))
    honest = copying_test(new, held_out, training, samples=200)
    assert honest.ratio_low < 1 < honest.ratio_high
    assert 0.9 < honest.ratio < 1.1
    assert honest.close < 0.05
    copied = copying_test(training[:200] + draw.normal(0, 0.01, (200, 10)), held_out, training, samples=200)
    assert copied.ratio_high < 0.1
    assert copied.close == 1.0
    # A few copies do not change the median, but are counted.
    some = copying_test(np.concatenate([training[:20], new]), held_out, training, samples=200)
    assert some.ratio > 0.9
    assert some.close == pytest.approx(20 / 220, abs=0.03)
    assert "ratio 0." in copied.summary()
    assert json.loads(json.dumps(some.to_json()))["training"] == 400
    assert copying_test(new, held_out, training, samples=200) == honest


def test_held_out_pictures_must_not_be_training_pictures() -> None:
    rows = np.random.default_rng(4).normal(size=(10, 3))
    with pytest.raises(CorpusError, match="half of the held-out pictures are training pictures"):
        copying_test(rows, rows, rows)
    with pytest.raises(SettingsError, match="samples is 0"):
        copying_test(rows, rows + 1, rows, samples=0)
