"""Nearest neighbours of pictures, as pixels or features, and a test of whether a generator copies training pictures.

All distances are Euclidean, in the units of the rows. They are computed in blocks, in float64: memory does not depend
on the number of rows, and integers such as pixels from 0 to 255 give exact results.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float, Int, Num
from numpy.typing import NDArray

from dragoman.errors import CorpusError, SettingsError

# Numbers of rows in a block of queries and in a block of references: 32 MB of distances.
QUERY_BLOCK, REFERENCE_BLOCK = 1024, 4096
# Percentile of the distances of held-out pictures below which a generated picture is counted as close.
CLOSE_PERCENTILE = 1


@dataclass(frozen=True, kw_only=True)
class CopyingTest:
    """Distances of generated pictures to the nearest training pictures, beside those of real pictures held out.

    A generator that has learned the distribution is as far from the training pictures as new real pictures are.

    Attributes:
        generated_median: median distance of generated pictures to the nearest training picture.
        held_out_median: the same for held-out real pictures.
        ratio: generated_median / held_out_median. Near 1 if nothing is copied, near 0 if most pictures are copies.
            Blurred pictures are near to many pictures and lower it too: look at the neighbours.
        ratio_low: lower end of the 95 % interval of the ratio.
        ratio_high: upper end of the 95 % interval of the ratio.
        close: share of the generated pictures that are nearer to a training picture than 99 % of the held-out pictures
            are; about 0.01 if nothing is copied. It also shows a few copies, which do not change a median.
        generated: number of generated pictures.
        held_out: number of held-out pictures.
        training: number of training pictures.
        samples: number of bootstrap samples.
        seed: seed of the samples.
    """

    generated_median: float
    held_out_median: float
    ratio: float
    ratio_low: float
    ratio_high: float
    close: float
    generated: int
    held_out: int
    training: int
    samples: int
    seed: int

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump."""
        return asdict(self)

    def summary(self) -> str:
        """Return one line of text."""
        return (
            f"distance to the nearest of {self.training:,} training pictures, median: {self.generated_median:.4g} from "
            f"generated, {self.held_out_median:.4g} from held-out pictures; ratio {self.ratio:.3f} "
            f"({self.ratio_low:.3f} to {self.ratio_high:.3f}); {self.close:.1%} closer than 99% of held-out pictures"
        )


def nearest_neighbours(
    queries: Num[np.ndarray, "N P"], training: Num[np.ndarray, "M P"], k: int
) -> tuple[Int[np.ndarray, "N k"], Float[np.ndarray, "N k"]]:
    """Return indices and distances of the nearest rows of `training` for each query, nearest first.

    Of rows at equal distances, the first is returned. A row that equals the query has the distance 0.

    Args:
        queries: pictures as rows of pixels or features.
        training: pictures as rows of the same width.
        k: number of neighbours.

    Returns:
        indices: rows of `training`.
        distances: Euclidean distances, in the units of the rows.

    Raises:
        CorpusError: if there are no rows, the widths differ, or a value is not finite.
        SettingsError: if k is not between 1 and the number of training pictures.

    Example:
        >>> import numpy as np
        >>> indices, distances = nearest_neighbours(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [9.0, 9.0]]), 1)
        >>> indices.tolist(), distances.tolist()
        ([[0]], [[5.0]])
    """
    check_rows("query", queries, least=1)
    check_rows("training", training, least=1)
    check_widths(queries, training)
    if not 1 <= k <= len(training):
        raise SettingsError(f"k is {k}; expected 1 to {len(training)}, the number of pictures to search")
    indices = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k), dtype=np.float64)
    for rows in blocks(len(queries), QUERY_BLOCK):
        block = queries[rows].astype(np.float64)
        indices[rows] = _nearest_of_block(block, training, k)
        # Directly from the differences: `squared_distances` has rounding errors where the distance is small.
        for neighbour in range(k):
            difference = block - training[indices[rows, neighbour]]
            distances[rows, neighbour] = np.sqrt(np.einsum("np,np->n", difference, difference))
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)


def copying_test(
    generated: Num[np.ndarray, "N P"],
    held_out: Num[np.ndarray, "L P"],
    training: Num[np.ndarray, "M P"],
    *,
    samples: int = 1000,
    seed: int = 12345,
) -> CopyingTest:
    """Compare the distances of generated and of held-out pictures to their nearest training pictures.

    The interval of the ratio is computed by resampling the generated and the held-out pictures, not the training
    pictures.

    Args:
        generated: generated pictures, as rows of pixels or features.
        held_out: real pictures that were not used for training, as rows.
        training: the training pictures, as rows.
        samples: number of bootstrap samples.
        seed: seed of the samples.

    Raises:
        CorpusError: if there are no rows, the widths differ, a value is not finite, or at least half of the held-out
            pictures are also training pictures.
        SettingsError: if `samples` < 1 or `seed` < 0.

    Example:
        >>> import numpy as np
        >>> training, held_out = np.array([[0.0], [10.0]]), np.array([[4.0], [14.0]])
        >>> copying_test(np.array([[0.5], [10.5]]), held_out, training, samples=10).ratio
        0.125
    """
    check_resampling(samples, seed)
    of_generated = nearest_neighbours(generated, training, 1)[1][:, 0]
    of_held_out = nearest_neighbours(held_out, training, 1)[1][:, 0]
    median = float(np.median(of_held_out))
    if median == 0:
        raise CorpusError("at least half of the held-out pictures are training pictures: hold out other pictures")
    generator = np.random.default_rng(seed)
    draws = np.empty(samples)
    for sample in range(samples):
        below = np.median(generator.choice(of_held_out, len(of_held_out)))
        above = np.median(generator.choice(of_generated, len(of_generated)))
        # A sample of the held-out pictures may consist of copies by chance.
        draws[sample] = above / below if below > 0 else np.inf
    low, high = interval(draws)
    return CopyingTest(
        generated_median=float(np.median(of_generated)),
        held_out_median=median,
        ratio=float(np.median(of_generated)) / median,
        ratio_low=low,
        ratio_high=high,
        close=float(np.mean(of_generated < np.percentile(of_held_out, CLOSE_PERCENTILE))),
        generated=len(generated),
        held_out=len(held_out),
        training=len(training),
        samples=samples,
        seed=seed,
    )


def squared_distances(left: Float[np.ndarray, "n P"], right: Float[np.ndarray, "m P"]) -> Float[np.ndarray, "n m"]:
    """Return ‖x − y‖² = ‖x‖² + ‖y‖² − 2 x·y of all pairs of rows; 0 where it is below the rounding error."""
    # [n, 1] + [1, m]
    norms = np.einsum("np,np->n", left, left)[:, None] + np.einsum("mp,mp->m", right, right)[None, :]
    squared = norms - 2 * (left @ right.T)
    squared[squared < norms * (8 * np.sqrt(left.shape[1]) * np.finfo(np.float64).eps)] = 0.0
    return squared


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Yield slices of at most `size` rows."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def interval(draws: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the interval that contains 95 % of the draws."""
    ordered = np.sort(draws)
    tail = len(ordered) // 40
    return float(ordered[tail]), float(ordered[-1 - tail])


def check_rows(name: str, rows: NDArray[np.generic], *, least: int) -> None:
    """Check the pictures of one set.

    Raises:
        CorpusError: if there are fewer than `least` rows, no columns, or values that are not finite.
    """
    assert rows.ndim == 2, f"{name}: expected rows [N, P], found {rows.shape}"
    assert np.issubdtype(rows.dtype, np.integer) or np.issubdtype(rows.dtype, np.floating), f"{name}: {rows.dtype}"
    if len(rows) < least or rows.shape[1] == 0:
        raise CorpusError(
            f"there are {len(rows)} {name} pictures of {rows.shape[1]} values; at least {least} are needed, with at "
            "least 1 value each"
        )
    for block in blocks(len(rows), REFERENCE_BLOCK):
        finite = np.isfinite(rows[block]).all(axis=1)
        if not finite.all():
            row = block.start + int(finite.argmin())
            raise CorpusError(f"{name} picture {row + 1} has a value that is not finite")


def check_widths(left: NDArray[np.generic], right: NDArray[np.generic]) -> None:
    """Raise CorpusError unless the rows of both sets have the same width."""
    if left.shape[1] != right.shape[1]:
        raise CorpusError(
            f"pictures of {left.shape[1]} and of {right.shape[1]} values cannot be compared: use the same features and "
            "the same size of picture for both sets"
        )


def check_resampling(samples: int, seed: int) -> None:
    """Raise SettingsError unless `samples` >= 1 and `seed` >= 0."""
    if samples < 1 or seed < 0:
        raise SettingsError(f"samples is {samples}, seed is {seed}; expected samples >= 1 and seed >= 0")


def _nearest_of_block(
    queries: Float[np.ndarray, "n P"], training: Num[np.ndarray, "M P"], k: int
) -> Int[np.ndarray, "n k"]:
    """Return the indices of the k nearest rows, nearest first."""
    rows = np.arange(len(queries))
    nearest = np.empty((len(queries), 0), dtype=np.int64)
    squared_nearest = np.empty((len(queries), 0))
    for block in blocks(len(training), REFERENCE_BLOCK):
        squared = squared_distances(queries, training[block].astype(np.float64))
        count = min(k, squared.shape[1])
        found = np.empty((len(queries), count), dtype=np.int64)
        squared_found = np.empty((len(queries), count))
        # Repeated minima return the first of equal distances, which a partition does not.
        for place in range(count):
            found[:, place] = squared.argmin(axis=1)
            squared_found[:, place] = squared[rows, found[:, place]]
            squared[rows, found[:, place]] = np.inf
        # [n, up to 2k]: earlier rows come first, and a stable sort keeps them first.
        nearest = np.concatenate([nearest, found + block.start], axis=1)
        squared_nearest = np.concatenate([squared_nearest, squared_found], axis=1)
        order = np.argsort(squared_nearest, axis=1, kind="stable")[:, :k]
        nearest = np.take_along_axis(nearest, order, axis=1)
        squared_nearest = np.take_along_axis(squared_nearest, order, axis=1)
    return nearest
