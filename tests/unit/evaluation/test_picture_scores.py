"""Scores of generated pictures: values, intervals, the reference of real halves, and their table."""

import json

import numpy as np
import pytest
from numpy.typing import NDArray

from dragoman.errors import CorpusError, SettingsError
from dragoman.evaluation.nearest_neighbours import copying_test
from dragoman.evaluation.picture_distances import frechet_distance, kernel_distance, precision_and_recall
from dragoman.evaluation.picture_scores import score_pictures


def normal(rows: int, seed: int, mean: float = 0.0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(mean, 1.0, (rows, 4))


REAL, GENERATED = normal(200, 1), normal(150, 2, 0.5)


def test_values_equal_the_distances_and_lie_in_their_intervals() -> None:
    scores = score_pictures(REAL, GENERATED, features="made", samples=80)
    assert scores.frechet.value == pytest.approx(frechet_distance(REAL, GENERATED), rel=1e-9)
    assert scores.kernel.value == pytest.approx(kernel_distance(REAL, GENERATED), rel=1e-9)
    assert (scores.precision.value, scores.recall.value) == pytest.approx(precision_and_recall(REAL, GENERATED))
    for score in (scores.frechet, scores.kernel, scores.precision, scores.recall):
        assert score.low < score.value < score.high
    # With equal numbers of pictures, the real halves are nearer to each other than the generated pictures to one half.
    assert scores.frechet.real_half < scores.frechet.generated_half
    assert scores.kernel.real_half < scores.kernel.generated_half
    assert scores.precision.real_half > scores.precision.generated_half
    # Samples contain fewer different pictures.
    assert scores.frechet.resampled_mean > scores.frechet.value
    assert (scores.real_pictures, scores.generated_pictures, scores.width) == (200, 150, 4)


def test_with_half_as_many_pictures_the_frechet_distance_is_higher() -> None:
    real, generated = (np.random.default_rng(seed).normal(size=(120, 40)) for seed in (7, 8))
    frechet = score_pictures(real, generated, features="made", samples=20).frechet
    assert frechet.value < 0.7 * frechet.generated_half
    assert frechet.real_half == pytest.approx(frechet.generated_half, rel=0.15)


def test_the_interval_has_the_spread_of_repeated_sets() -> None:
    """The width of the interval is about that of 95 % of the values of new sets of the same sizes."""
    values = np.sort([kernel_distance(normal(200, 2 * i), normal(150, 2 * i + 1, 0.5)) for i in range(100, 300)])
    score = score_pictures(REAL, GENERATED, features="made", samples=200).kernel
    assert (score.high - score.low) / (values[-6] - values[5]) == pytest.approx(1.0, abs=0.35)


def test_equal_seeds_give_equal_scores() -> None:
    first = score_pictures(REAL, GENERATED, features="made", samples=10, seed=3)
    assert score_pictures(REAL, GENERATED, features="made", samples=10, seed=3) == first
    assert score_pictures(REAL, GENERATED, features="made", samples=10, seed=4).frechet.low != first.frechet.low


def test_the_table_and_json_contain_every_score() -> None:
    copying = copying_test(GENERATED, normal(50, 5), normal(100, 6), samples=20)
    scores = score_pictures(REAL.astype(np.float32), GENERATED, features="of a test", samples=10, copying=copying)
    table = scores.table()
    assert f"{scores.frechet.value:.2f}" in table
    assert "features: of a test (4); 200 real and 150 generated pictures; k 3; bootstrap: 10 samples" in table
    assert "of 100 training pictures" in table
    values = json.loads(json.dumps(scores.to_json(), allow_nan=False))
    assert next(iter(values)) == "ratio"
    assert values["ratio"] == pytest.approx(scores.frechet.generated_half / scores.frechet.real_half)
    assert values["ratio"] > 1
    assert values["recall"]["value"] == scores.recall.value
    assert values["copying"]["held_out"] == 50
    assert "training pictures" not in score_pictures(REAL, GENERATED, features="x", samples=1).table()


def test_the_fewest_pictures() -> None:
    score_pictures(REAL[:4], GENERATED[:2], features="few", k=1, samples=20)
    with pytest.raises(CorpusError, match="3 real pictures; at least 4"):
        score_pictures(REAL[:3], GENERATED, features="few", k=1)
    with pytest.raises(SettingsError, match="k is 2; expected 1 to 1"):
        score_pictures(REAL[:4], GENERATED, features="few", k=2)
    with pytest.raises(SettingsError, match="samples is 0, seed is 1"):
        score_pictures(REAL, GENERATED, features="few", samples=0, seed=1)
    with pytest.raises(CorpusError, match="not finite"):
        score_pictures(REAL, np.full((3, 4), np.nan), features="few")
