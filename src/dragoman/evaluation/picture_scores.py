"""Scores of generated pictures, with intervals by resampling and the scores of real pictures as a reference."""

from dataclasses import asdict, dataclass

import numpy as np
from jaxtyping import Float

from dragoman.errors import CorpusError
from dragoman.evaluation.nearest_neighbours import CopyingTest, check_resampling, interval
from dragoman.evaluation.picture_distances import (
    check_sets,
    frechet_distance,
    frechet_distance_of_gaussians,
    gaussian_of_sample,
    kernel_distance,
    kernel_distances,
    precision_and_recall,
    similar,
)
from dragoman.evaluation.tables import aligned

# Fewer samples than those of a test set of sentences: each needs decompositions of matrices of all features.
SAMPLES, SEED = 200, 12345


@dataclass(frozen=True, kw_only=True)
class PictureScore:
    """One score of generated pictures.

    Attributes:
        value: the score of all pictures.
        low: lower end of the 95 % interval.
        high: upper end of the 95 % interval.
        resampled_mean: mean over the samples.
        real_half: the score of real pictures of one half against the other half of the real pictures: the score of a
            perfect generator with these numbers of pictures.
        generated_half: the score of as many generated pictures against the same half, to be compared with `real_half`.
    """

    value: float
    low: float
    high: float
    resampled_mean: float
    real_half: float
    generated_half: float


@dataclass(frozen=True, kw_only=True)
class PictureScores:
    """Scores of generated pictures against real pictures; made by `score_pictures`.

    Attributes:
        frechet: Fréchet distance, lower is better; biased, see `score_pictures`.
        kernel: kernel distance, lower is better, unbiased.
        precision: share of the generated pictures that are similar to real ones, 0 to 1.
        recall: share of the real pictures that are similar to generated ones, 0 to 1.
        features: name of the features.
        width: number of features.
        real_pictures: number of real pictures.
        generated_pictures: number of generated pictures.
        k: number of neighbours for precision and recall.
        samples: number of bootstrap samples.
        seed: seed of the samples and of the halves.
        copying: distances to the training pictures; None if they were not computed.
    """

    frechet: PictureScore
    kernel: PictureScore
    precision: PictureScore
    recall: PictureScore
    features: str
    width: int
    real_pictures: int
    generated_pictures: int
    k: int
    samples: int
    seed: int
    copying: CopyingTest | None = None

    @property
    def ratio(self) -> float | None:
        """Fréchet distance of generated pictures divided by that of real ones, both by half of the real pictures.

        1 for a perfect generator; None if the real halves are equal.
        """
        return self.frechet.generated_half / self.frechet.real_half if self.frechet.real_half else None

    def to_json(self) -> dict[str, object]:
        """Return plain values for json.dump; the first is `ratio`."""
        return {"ratio": self.ratio, **asdict(self)}

    def table(self) -> str:
        """Return a plain-text table with a row for each score, followed by how they were computed."""
        rows = [("score", "value", "95 % interval", "half: generated", "half: real", "better")]
        scores: list[tuple[str, PictureScore, str, str]] = [
            ("Fréchet distance", self.frechet, ".2f", "lower"),
            ("kernel distance", self.kernel, ".5f", "lower"),
            ("precision of the set", self.precision, ".3f", "higher"),
            ("recall of the set", self.recall, ".3f", "higher"),
        ]
        for name, score, form, better in scores:
            ends = f"{score.low:{form}} to {score.high:{form}}"
            halves = f"{score.generated_half:{form}}", f"{score.real_half:{form}}"
            rows.append((name, f"{score.value:{form}}", ends, *halves, better))
        lines = [
            aligned(rows, names=1),
            f"features: {self.features} ({self.width:,}); {self.real_pictures:,} real and {self.generated_pictures:,} "
            f"generated pictures; k {self.k}; bootstrap: {self.samples} samples, seed {self.seed}",
            "half: equal numbers of generated and of real pictures against one half of the real pictures. The Fréchet "
            "distance is too high with few pictures: compare values of equal numbers only",
        ]
        if self.copying is not None:
            lines.append(self.copying.summary())
        return "\n".join(lines)


def score_pictures(
    real: Float[np.ndarray, "N F"],
    generated: Float[np.ndarray, "M F"],
    *,
    features: str,
    k: int = 3,
    samples: int = SAMPLES,
    seed: int = SEED,
    copying: CopyingTest | None = None,
) -> PictureScores:
    """Return the scores of generated pictures, with intervals by resampling the pictures.

    In each sample, the real and the generated pictures are drawn with replacement. For precision and recall, only the
    pictures that are counted are drawn, and the balls of the other set remain. A score of a sample differs from that of
    all pictures on average, because a sample contains fewer different pictures. Therefore the draws are shifted so that
    their mean is the value, and the interval is that of the shifted draws: it states how much the value varies with the
    pictures. It does not correct the bias of the value. The Fréchet distance of few pictures is too high, and so is its
    interval. How large the bias is, and which score a perfect generator has, is shown by the score of one half of the
    real pictures against the other; beside it is the score of as many generated pictures against the same half. With
    half as many pictures, the bias is about twice that of the value.

    Args:
        real: features of the real pictures.
        generated: features of the generated pictures.
        features: name of the features, for the table.
        k: number of neighbours for precision and recall.
        samples: number of bootstrap samples.
        seed: seed of the samples and of the halves. The result depends only on the arguments.
        copying: result of `copying_test` of the same pictures, to be reported beside the scores.

    Raises:
        CorpusError: if there are fewer than 4 real or 2 generated pictures, the widths differ, or a value is not
            finite.
        SettingsError: if `samples` < 1, `seed` < 0, or a half of the real pictures or the generated pictures have fewer
            than k + 1 pictures.

    Example:
        >>> import numpy as np
        >>> draw = np.random.default_rng(1)
        >>> scores = score_pictures(draw.normal(size=(40, 2)), draw.normal(size=(30, 2)), features="made", samples=10)
        >>> scores.precision.value > 0.8, scores.real_pictures
        (True, 40)
    """
    check_sets(real, generated)
    check_resampling(samples, seed)
    if len(real) < 4:
        raise CorpusError(f"there are {len(real)} real pictures; at least 4 are needed, for two halves")
    real, generated = real.astype(np.float64), generated.astype(np.float64)
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(real))
    half, other_half = real[order[: len(real) // 2]], real[order[len(real) // 2 :]]
    count = min(len(other_half), len(generated))
    of_real = _values(half, other_half[:count], k)
    of_generated = _values(half, generated[generator.permutation(len(generated))[:count]], k)
    # Whether each picture is similar to the other set: the values of precision and recall are means.
    precise, recalled = similar(generated, real, k), similar(real, generated, k)
    real_times, generated_times = _draw(generator, len(real), samples), _draw(generator, len(generated), samples)
    kernel = kernel_distances(real, generated, real_times, generated_times)
    frechet = np.array(
        [
            frechet_distance_of_gaussians(*gaussian_of_sample(real, times), *gaussian_of_sample(generated, other_times))
            for times, other_times in zip(real_times, generated_times, strict=True)
        ]
    )
    return PictureScores(
        frechet=_score(frechet, of_real[0], of_generated[0]),
        kernel=_score(kernel, of_real[1], of_generated[1]),
        precision=_score(generated_times @ precise / len(generated), of_real[2], of_generated[2]),
        recall=_score(real_times @ recalled / len(real), of_real[3], of_generated[3]),
        features=features,
        width=real.shape[1],
        real_pictures=len(real),
        generated_pictures=len(generated),
        k=k,
        samples=samples,
        seed=seed,
        copying=copying,
    )


def _draw(generator: np.random.Generator, count: int, samples: int) -> Float[np.ndarray, "R count"]:
    """Return the number of times that each sample contains each picture; the first one contains each picture once."""
    times = np.ones((1 + samples, count))
    for sample in range(1, 1 + samples):
        # A sample of few pictures may consist of copies of one picture, which have no covariance: draw again.
        while True:
            times[sample] = np.bincount(generator.choice(count, count), minlength=count)
            if np.count_nonzero(times[sample]) > 1:
                break
    return times


def _values(
    real: Float[np.ndarray, "N F"], generated: Float[np.ndarray, "M F"], k: int
) -> tuple[float, float, float, float]:
    """Return Fréchet distance, kernel distance, precision and recall."""
    return (
        frechet_distance(real, generated),
        kernel_distance(real, generated),
        *precision_and_recall(real, generated, k),
    )


def _score(draws: Float[np.ndarray, " R"], real_half: float, generated_half: float) -> PictureScore:
    """Return a score; the first of its draws is the value of all pictures."""
    value, mean = float(draws[0]), float(draws[1:].mean())
    low, high = interval(draws[1:] - mean + value)
    return PictureScore(
        value=value, low=low, high=high, resampled_mean=mean, real_half=real_half, generated_half=generated_half
    )
