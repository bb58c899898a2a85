"""Distances between sets of pictures: closed forms, independent implementations, invariances, hostile input."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dragoman.errors import CorpusError, SettingsError
from dragoman.evaluation import nearest_neighbours as neighbours_module
from dragoman.evaluation import picture_distances
from dragoman.evaluation.picture_distances import (
    frechet_distance,
    frechet_distance_of_gaussians,
    kernel_distance,
    kernel_distances,
    precision_and_recall,
)

Array = NDArray[np.float64]


def normal(rows: int, columns: int, seed: int, *, mean: float = 0.0, scale: float = 1.0) -> Array:
    draws: Array = np.random.default_rng(seed).normal(mean, scale, (rows, columns))
    return draws


def rotation(width: int, seed: int) -> Array:
    matrix: Array = np.linalg.qr(normal(width, width, seed))[0]
    return matrix


def test_commuting_gaussians_have_the_closed_form() -> None:
    """For equal eigenvectors the distance is ‖m − m'‖² + Σ (σ − σ')²."""
    turn = rotation(3, 1)
    covariance = turn @ np.diag([4.0, 1.0, 0.0]) @ turn.T
    other = turn @ np.diag([9.0, 0.0, 0.25]) @ turn.T
    mean, other_mean = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 4.0])
    distance = frechet_distance_of_gaussians(mean, covariance, other_mean, other)
    assert distance == pytest.approx((4 + 1) + (2 - 3) ** 2 + 1 + 0.25, rel=1e-7)


def test_gaussians_that_do_not_commute() -> None:
    """For 2 x 2 matrices, tr (AB)^½ = √(tr AB + 2 √det AB)."""
    covariance, other = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[5.0, -1.0], [-1.0, 1.0]])
    # tr AB = 9 + 2 = 11, det AB = 5 · 4 = 20.
    expected = 2 + 3 + 5 + 1 - 2 * np.sqrt(11 + 2 * np.sqrt(20))
    zero = np.zeros(2)
    assert frechet_distance_of_gaussians(zero, covariance, zero, other) == pytest.approx(expected, rel=1e-12)


def test_frechet_distance_of_samples_with_given_moments() -> None:
    # Covariances diag(2/3, 2/3) and diag(6, 2/3) (unbiased), means (0, 0) and (1, 0).
    real = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    generated = real * [3.0, 1.0] + [1.0, 0.0]
    expected = 1 + (np.sqrt(6) - np.sqrt(2 / 3)) ** 2
    assert frechet_distance(real, generated) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("rows", "width"), [(50, 8), (5, 20), (2, 3), (64, 1)])
def test_equal_sets_have_the_distance_zero(rows: int, width: int) -> None:
    real = normal(rows, width, 2, mean=5.0)
    assert frechet_distance(real, real) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("width", [1, 5, 12])
def test_the_distance_equals_that_of_a_matrix_square_root(width: int) -> None:
    linalg = pytest.importorskip("scipy.linalg")
    real = normal(60, width, 3) @ normal(width, width, 4)
    generated = normal(40, width, 5, mean=0.5) @ normal(width, width, 6)
    covariances = [np.cov(features, rowvar=False).reshape(width, width) for features in (real, generated)]
    root = linalg.sqrtm(covariances[0] @ covariances[1]).real
    difference = real.mean(axis=0) - generated.mean(axis=0)
    expected = difference @ difference + np.trace(covariances[0] + covariances[1] - 2 * root)
    assert frechet_distance(real, generated) == pytest.approx(expected, rel=1e-9)


def test_fewer_pictures_than_features() -> None:
    """The covariances are singular; the trace of the root comes from the nonzero eigenvalues of X Y' Y X'."""
    real, generated = normal(4, 30, 7), normal(6, 30, 8, mean=0.3)
    centred = [(features - features.mean(axis=0)) / np.sqrt(len(features) - 1) for features in (real, generated)]
    root = np.linalg.svd(centred[0] @ centred[1].T, compute_uv=False).sum()
    difference = real.mean(axis=0) - generated.mean(axis=0)
    expected = difference @ difference + sum(np.sum(part**2) for part in centred) - 2 * root
    assert frechet_distance(real, generated) == pytest.approx(expected, rel=1e-6)


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 30), width=st.integers(1, 10))
def test_order_rotation_and_shift_change_nothing(seed: int, rows: int, width: int) -> None:
    real, generated = normal(rows, width, seed), normal(rows + 3, width, seed + 1, mean=0.4, scale=1.3)
    order = np.random.default_rng(seed).permutation(rows)
    turn = rotation(width, seed + 2)
    expected = frechet_distance(real, generated)
    assert frechet_distance(real[order], generated) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert frechet_distance(real @ turn, generated @ turn) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert frechet_distance(real + 7, generated + 7) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert frechet_distance(generated, real) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    kernel = kernel_distance(real, generated)
    assert kernel_distance(real[order] @ turn, generated @ turn) == pytest.approx(kernel, rel=1e-9, abs=1e-9)
    k = min(2, rows - 1)
    assert precision_and_recall(real[order] @ turn, generated @ turn, k) == precision_and_recall(real, generated, k)


def naive_kernel_distance(real: Array, generated: Array) -> float:
    def kernel(x: Array, y: Array) -> float:
        return float((x @ y / len(x) + 1) ** 3)

    def within(rows: Array) -> float:
        n = len(rows)
        pairs = [kernel(rows[i], rows[j]) for i in range(n) for j in range(n) if i != j]
        return sum(pairs) / len(pairs)

    across = np.mean([[kernel(x, y) for y in generated] for x in real])
    return within(real) + within(generated) - 2 * float(across)


def test_the_kernel_distance_equals_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    real, generated = normal(13, 4, 9), normal(11, 4, 10, mean=0.5)
    expected = naive_kernel_distance(real, generated)
    assert kernel_distance(real, generated) == pytest.approx(expected, rel=1e-10)
    monkeypatch.setattr(picture_distances, "QUERY_BLOCK", 3)
    monkeypatch.setattr(picture_distances, "REFERENCE_BLOCK", 4)
    assert kernel_distance(real, generated) == pytest.approx(expected, rel=1e-10)


def test_the_kernel_distance_is_unbiased() -> None:
    """The mean over many small sets of one distribution is 0, within 4 standard errors; each estimate is not."""
    draws = np.array([kernel_distance(normal(8, 3, 2 * i), normal(6, 3, 2 * i + 1)) for i in range(1500)])
    assert abs(draws.mean()) < 4 * draws.std() / np.sqrt(len(draws))
    assert draws.min() < 0 < draws.max()
    # The Fréchet distance is biased.
    biased = np.array([frechet_distance(normal(8, 3, 2 * i), normal(6, 3, 2 * i + 1)) for i in range(200)])
    assert biased.mean() > 4 * biased.std() / np.sqrt(len(biased))


def test_the_kernel_distance_of_a_sample_leaves_copies_out() -> None:
    real, generated = normal(3, 2, 11), normal(2, 2, 12)
    # Real pictures 1, 1, 3: its pairs of different pictures are (1, 3) and (3, 1), twice each.
    [distance] = kernel_distances(real, generated, np.array([[2.0, 0.0, 1.0]]), np.ones((1, 2)))

    def kernel(x: Array, y: Array) -> float:
        return float((x @ y / 2 + 1) ** 3)

    across = np.mean([2 * kernel(real[0], y) / 3 + kernel(real[2], y) / 3 for y in generated])
    expected = kernel(real[0], real[2]) + kernel(generated[0], generated[1]) - 2 * across
    assert distance == pytest.approx(expected, rel=1e-12)


def naive_similar(pictures: Array, others: Array, k: int) -> Array:
    own = np.linalg.norm(others[:, None] - others[None], axis=-1)
    radii = np.sort(own, axis=1)[:, k]
    across = np.linalg.norm(pictures[:, None] - others[None], axis=-1)
    inside: Array = (across <= radii).any(axis=1)
    return inside


@pytest.mark.parametrize("k", [1, 3, 5])
def test_precision_and_recall_equal_their_definition(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, generated = normal(40, 3, 13), normal(30, 3, 14, mean=0.7, scale=0.6)
    expected = naive_similar(generated, real, k).mean(), naive_similar(real, generated, k).mean()
    assert precision_and_recall(real, generated, k) == expected
    for module in (picture_distances, neighbours_module):
        monkeypatch.setattr(module, "QUERY_BLOCK", 7)
        monkeypatch.setattr(module, "REFERENCE_BLOCK", 4)
    assert precision_and_recall(real, generated, k) == expected


def test_precision_and_recall_of_constructed_sets() -> None:
    # Two modes of 10 pictures each, 100 apart.
    first, second = normal(10, 2, 15), normal(10, 2, 16) + 100
    both = np.concatenate([first, second])
    assert precision_and_recall(both, both) == (1.0, 1.0)
    # A generator of one mode: precise, and half of the real pictures are missed.
    assert precision_and_recall(both, first) == (1.0, 0.5)
    # Half of the pictures are noise.
    precision, recall = precision_and_recall(first, both)
    assert (precision, recall) == (0.5, 1.0)
    assert precision_and_recall(first, second) == (0.0, 0.0)


def test_copies_of_one_picture_are_similar_to_themselves_alone() -> None:
    one = np.repeat(normal(1, 300, 17, mean=3.0), 6, axis=0)
    assert precision_and_recall(one, one) == (1.0, 1.0)
    assert precision_and_recall(normal(20, 300, 18, mean=3.0), one).recall == 0.0


@pytest.mark.parametrize("score", [frechet_distance, kernel_distance, precision_and_recall])
def test_features_that_cannot_be_compared(score: Callable[[Array, Array], object]) -> None:
    real = normal(6, 3, 19)
    for broken in (np.nan, np.inf, -np.inf):
        generated = real.copy()
        generated[4, 1] = broken
        with pytest.raises(CorpusError, match="generated picture 5 has a value that is not finite"):
            score(real, generated)
        with pytest.raises(CorpusError, match="real picture 5 has"):
            score(generated, real)
    with pytest.raises(CorpusError, match="there are 1 generated pictures"):
        score(real, real[:1])
    with pytest.raises(CorpusError, match="there are 0 real pictures"):
        score(real[:0], real)
    with pytest.raises(CorpusError, match="of 0 values"):
        score(real[:, :0], real[:, :0])
    with pytest.raises(CorpusError, match="of 3 and of 2 values cannot be compared"):
        score(real, real[:, :2])
    with pytest.raises(AssertionError, match="expected rows"):
        score(real[0], real)
    with pytest.raises(AssertionError, match="complex"):
        score(real.astype(np.complex128), real)


@pytest.mark.parametrize("k", [0, -1, 6, 100])
def test_k_is_smaller_than_the_set(k: int) -> None:
    with pytest.raises(SettingsError, match=f"k is {k}; expected 1 to 5"):
        precision_and_recall(normal(6, 2, 20), normal(9, 2, 21), k)
