"""Distances between sets of real and generated pictures, computed from features of the pictures.

The features are those of a network, one row for each picture; which network it is decides what the numbers mean, and
numbers of different networks or of different numbers of pictures cannot be compared.

- Fréchet distance: Heusel et al., "GANs Trained by a Two Time-Scale Update Rule" (2017), equation 6.
- Kernel distance: Bińkowski et al., "Demystifying MMD GANs" (2018).
- Precision and recall: Kynkäänniemi et al., "Improved Precision and Recall Metric" (2019).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from dragoman.errors import SettingsError
from dragoman.evaluation.nearest_neighbours import (
    QUERY_BLOCK,
    REFERENCE_BLOCK,
    blocks,
    check_rows,
    check_widths,
    nearest_neighbours,
    squared_distances,
)


class SetPrecisionAndRecall(NamedTuple):
    """Precision and recall of a set of generated pictures.

    Attributes:
        precision: share of the generated pictures that are similar to real ones, 0 to 1.
        recall: share of the real pictures that are similar to generated ones, 0 to 1.
    """

    precision: float
    recall: float


def frechet_distance(real: Float[np.ndarray, "N F"], generated: Float[np.ndarray, "M F"]) -> float:
    """Return the Fréchet distance between Gaussians with the means and covariances of two sets (Heusel et al. 2017).

    The distance is at least 0, lower is better. It is biased: with few pictures it is too high, by an amount that is
    about proportional to 1 / N and depends on the generator (Bińkowski et al. 2018). Compare only values of equal
    numbers of pictures, several times as many as there are features.

    Args:
        real: features of the real pictures.
        generated: features of the generated pictures.

    Raises:
        CorpusError: if a set has fewer than 2 pictures, the widths differ, or a value is not finite.

    Example:
        >>> import numpy as np
        >>> real = np.array([[0.0], [2.0]])
        >>> frechet_distance(real, real + 3.0)
        9.0
    """
    check_sets(real, generated)
    return frechet_distance_of_gaussians(*_gaussian(real), *_gaussian(generated))


def frechet_distance_of_gaussians(
    mean: Float[np.ndarray, " F"],
    covariance: Float[np.ndarray, "F F"],
    other_mean: Float[np.ndarray, " F"],
    other_covariance: Float[np.ndarray, "F F"],
) -> float:
    """Return the Fréchet distance between two Gaussians: ‖m − m'‖² + tr(C + C' − 2 (C C')^½).

    Let C = RᵀR and C' = R'ᵀR'. The eigenvalues of C C' are the squares of the singular values of R R'ᵀ, so the trace of
    the square root is the sum of these singular values. The factors R come from eigendecompositions of the symmetric
    matrices, which exist for singular covariances too; eigenvalues below 0 are rounding errors.
    """
    root = np.linalg.svd(_factor(covariance) @ _factor(other_covariance).T, compute_uv=False).sum()
    difference = mean - other_mean
    distance = difference @ difference + np.trace(covariance) + np.trace(other_covariance) - 2 * root
    return max(float(distance), 0.0)


def kernel_distance(real: Float[np.ndarray, "N F"], generated: Float[np.ndarray, "M F"]) -> float:
    """Return the unbiased estimate of the squared maximum mean discrepancy with the kernel (x·y / F + 1)³.

    Lower is better. The mean of the estimate does not depend on the numbers of pictures; it is 0 for equal
    distributions, so that single estimates may be below 0 (Bińkowski et al. 2018, section 4).

    Args:
        real: features of the real pictures.
        generated: features of the generated pictures.

    Raises:
        CorpusError: if a set has fewer than 2 pictures, the widths differ, or a value is not finite.

    Example:
        >>> import numpy as np
        >>> kernel_distance(np.array([[1.0], [1.0]]), np.array([[-1.0], [-1.0]]))
        16.0
    """
    check_sets(real, generated)
    return float(kernel_distances(real, generated, np.ones((1, len(real))), np.ones((1, len(generated))))[0])


def kernel_distances(
    real: Float[np.ndarray, "N F"],
    generated: Float[np.ndarray, "M F"],
    real_times: Float[np.ndarray, "R N"],
    generated_times: Float[np.ndarray, "R M"],
) -> Float[np.ndarray, " R"]:
    """Return the kernel distance of R samples of the pictures, from one pass over the pairs of pictures.

    A pair of two copies of one picture is left out, as the pair of a picture with itself is: it would make the estimate
    too high.

    Args:
        real: features of the real pictures.
        generated: features of the generated pictures.
        real_times: number of times that each sample contains each real picture.
        generated_times: the same for the generated pictures.
    """
    within_real = _mean_within(real, real_times)
    within_generated = _mean_within(generated, generated_times)
    pairs = real_times.sum(axis=1) * generated_times.sum(axis=1)
    return within_real + within_generated - 2 * _kernel_sums(real, generated, real_times, generated_times) / pairs


def precision_and_recall(
    real: Float[np.ndarray, "N F"], generated: Float[np.ndarray, "M F"], k: int = 3
) -> SetPrecisionAndRecall:
    """Return the precision and the recall of generated pictures (Kynkäänniemi et al. 2019, equations 1 and 2).

    A picture is similar to a set if it is within the ball around one of the pictures of this set that reaches to the
    k-th nearest other picture of the set. Both values increase with k; compare only values of equal k and equal numbers
    of pictures.

    Args:
        real: features of the real pictures.
        generated: features of the generated pictures.
        k: number of neighbours.

    Raises:
        CorpusError: if a set has fewer than 2 pictures, the widths differ, or a value is not finite.
        SettingsError: if k is not between 1 and the number of pictures of the smaller set, less 1.

    Example:
        >>> import numpy as np
        >>> real = np.array([[0.0], [1.0], [10.0], [11.0]])
        >>> precision_and_recall(real, np.array([[0.2], [0.7], [0.9]]), k=1)
        SetPrecisionAndRecall(precision=1.0, recall=0.5)
    """
    check_sets(real, generated)
    return SetPrecisionAndRecall(
        precision=float(similar(generated, real, k).mean()), recall=float(similar(real, generated, k).mean())
    )


def similar(pictures: Float[np.ndarray, "N F"], others: Float[np.ndarray, "M F"], k: int = 3) -> Bool[np.ndarray, " N"]:
    """Return which pictures are similar to a set of other pictures; see `precision_and_recall`.

    Raises:
        SettingsError: if k is not between 1 and the number of the other pictures, less 1.
    """
    if not 1 <= k < len(others):
        raise SettingsError(f"k is {k}; expected 1 to {len(others) - 1}: a set of {len(others)} pictures has no more")
    # The nearest neighbour in its own set is the picture itself: [M]
    radii = nearest_neighbours(others, others, k + 1)[1][:, k] ** 2
    result = np.zeros(len(pictures), dtype=np.bool_)
    for rows in blocks(len(pictures), QUERY_BLOCK):
        block = pictures[rows].astype(np.float64)
        for columns in blocks(len(others), REFERENCE_BLOCK):
            squared = squared_distances(block, others[columns].astype(np.float64))
            result[rows] |= (squared <= radii[columns]).any(axis=1)
    return result


def check_sets(real: Float[np.ndarray, "N F"], generated: Float[np.ndarray, "M F"]) -> None:
    """Raise CorpusError unless each set has at least 2 pictures, equal widths, and finite values."""
    check_rows("real", real, least=2)
    check_rows("generated", generated, least=2)
    check_widths(real, generated)


def gaussian_of_sample(
    features: Float[np.ndarray, "N F"], times: Float[np.ndarray, " N"]
) -> tuple[Float[np.ndarray, " F"], Float[np.ndarray, "F F"]]:
    """Return the mean and the unbiased covariance of a sample that contains each row `times` times."""
    count = times.sum()
    mean = times @ features / count
    # Rows that the sample does not contain are left out: they would cost as much as the others.
    centred = (features - mean)[times > 0] * np.sqrt(times[times > 0])[:, None]
    return mean, centred.T @ centred / (count - 1)


def _gaussian(features: Float[np.ndarray, "N F"]) -> tuple[Float[np.ndarray, " F"], Float[np.ndarray, "F F"]]:
    return gaussian_of_sample(features.astype(np.float64), np.ones(len(features)))


def _factor(covariance: Float[np.ndarray, "F F"]) -> Float[np.ndarray, "F F"]:
    """Return a matrix R with RᵀR = covariance."""
    values, vectors = np.linalg.eigh(covariance)
    factor: Float[np.ndarray, "F F"] = np.sqrt(np.clip(values, 0.0, None))[:, None] * vectors.T
    return factor


def _mean_within(features: Float[np.ndarray, "N F"], times: Float[np.ndarray, "R N"]) -> Float[np.ndarray, " R"]:
    """Return the mean of the kernel over all pairs of different pictures of each sample."""
    # [N]: the kernel of each picture with itself
    same = (np.einsum("nf,nf->n", features, features, dtype=np.float64) / features.shape[1] + 1) ** 3
    copies = times**2
    pairs = times.sum(axis=1) ** 2 - copies.sum(axis=1)
    assert (pairs > 0).all(), "a sample contains only copies of one picture"
    mean: Float[np.ndarray, " R"] = (_kernel_sums(features, features, times, times) - copies @ same) / pairs
    return mean


def _kernel_sums(
    left: Float[np.ndarray, "N F"],
    right: Float[np.ndarray, "M F"],
    left_times: Float[np.ndarray, "R N"],
    right_times: Float[np.ndarray, "R M"],
) -> Float[np.ndarray, " R"]:
    """Return the sum of the kernel over all pairs of each sample, in blocks of pairs."""
    sums = np.zeros(len(left_times))
    for rows in blocks(len(left), QUERY_BLOCK):
        block = left[rows].astype(np.float64)
        for columns in blocks(len(right), REFERENCE_BLOCK):
            base = block @ right[columns].astype(np.float64).T / left.shape[1] + 1
            # Two products are several times as fast as a power.
            kernel = base * base * base
            sums += np.einsum("rn,rn->r", left_times[:, rows], right_times[:, columns] @ kernel.T)
    return sums
