"""Compare self-attention GANs with attention at one feature map or another, and without: equal updates, several seeds.

    dragoman corpus fetch mnist-5k --out corpora
    python benchmarks/sagan_attention.py corpora/mnist-5k RUNS

CORPUS has train/, valid/ and test/. RUNS receives a model directory for each map and each seed; those that are there
are not trained again. The arms are rows of table 1 of Zhang et al. (2019) in kind: smaller pictures, smaller models and
another judge, the classifier of the training pictures, so that the distances cannot be compared with published ones.
The last line is JSON and begins with the ratio of the mean Fréchet distance with attention at the last map to that
without attention.
"""

import argparse
import json
import platform
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from dragoman import __version__, train
from dragoman.data.picture_reading import read_pictures
from dragoman.evaluation.picture_scores import score_pictures
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator

PICTURES, SEED = 1000, 1
# 97.5 % quantiles of Student's t, by degrees of freedom.
T_QUANTILES = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


@dataclass(frozen=True)
class Result:
    """Scores of one model, and the factor γ of the attention of both networks; None without attention."""

    frechet: float
    real_half: float
    precision: float
    recall: float
    gammas: tuple[float, float] | None


def train_model(corpus: Path, out: Path, attention: str, seed: int, arguments: argparse.Namespace) -> float:
    """Train a model if it is not there; return the minutes."""
    settings = {
        "task": "images",
        "preset": arguments.preset,
        "data": {"size": arguments.size, "channels": arguments.channels},
        "model": {"attention": None if attention == "none" else int(attention)},
        "training": {"steps": arguments.steps, "seed": seed},
        "schedule": {"peak_learning_rate": 0.0002},
        "batching": {"pictures": 32},
    }
    start = time.monotonic()
    train([str(corpus / "train")], out, validation=str(corpus / "valid"), settings=settings)
    return (time.monotonic() - start) / 60


def evaluate(out: Path, judge: PictureClassifier, corpus: Path) -> Result:
    """Compare the pictures of a model with those of the test set."""
    generator = PictureGenerator.load(out, device="cpu")
    config = generator.config
    channels: Literal[1, 3] = 1 if config.channels == 1 else 3
    test = read_pictures(corpus / "test", config.size, channels=channels, broken="refuse", animated="refuse")
    generated = generator.sample(PICTURES, seed=SEED)
    scores = score_pictures(judge.features(test.images), judge.features(generated), features="judge", samples=2)
    networks = (generator.model.generator, generator.model.discriminator)
    gammas = [network.attention.gamma.item() for network in networks if network.attention is not None]
    return Result(
        scores.frechet.value,
        scores.frechet.real_half,
        scores.precision.value,
        scores.recall.value,
        (gammas[0], gammas[1]) if gammas else None,
    )


def interval(values: list[float]) -> str:
    """Return the mean of the values with its 95 % interval by Student's t."""
    mean = statistics.mean(values)
    if len(values) < 2:
        return f"{mean:.3f}"
    half = T_QUANTILES[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:.3f} ({mean - half:.3f} to {mean + half:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--maps", nargs="+", default=["none", "8", "16"], help="sizes of the map, or none")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="ten at most")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--channels", type=int, default=1)
    arguments = parser.parse_args()
    runs = {
        (map_, seed): arguments.runs / f"map-{map_}-seed-{seed}" for map_ in arguments.maps for seed in arguments.seeds
    }
    for (map_, seed), out in runs.items():
        minutes = train_model(arguments.corpus, out, map_, seed, arguments)
        print(f"{out.name}: {minutes:.1f} min", flush=True)
    # The judges of all runs are trained in the same way on the same pictures, from the same seed.
    judge = PictureClassifier.load(next(iter(runs.values())) / "run" / "judge", device="cpu")
    results = {key: evaluate(out, judge, arguments.corpus) for key, out in runs.items()}
    real = next(iter(results.values())).real_half
    print(f"\nFréchet distance of {PICTURES:,} pictures, {arguments.steps:,} updates; real halves {real:.3f}")
    print(f"{'map':<6}{'seed':>5}{'Fréchet':>9}{'precision':>11}{'recall':>8}   γ generator, discriminator")
    for (map_, seed), result in results.items():
        gammas = ", ".join(f"{gamma:+.3f}" for gamma in result.gammas) if result.gammas else "-"
        numbers = f"{result.frechet:>9.3f}{result.precision:>11.3f}{result.recall:>8.3f}"
        print(f"{map_:<6}{seed:>5}{numbers}   {gammas}")
    distances = {map_: [results[map_, seed].frechet for seed in arguments.seeds] for map_ in arguments.maps}
    print("\nmean over the seeds, with 95 % intervals (Student's t)")
    for map_, values in distances.items():
        print(f"{map_:<6}{interval(values)}")
    print("\ndifferences between runs of the same seed")
    for number, one in enumerate(arguments.maps):
        for other in arguments.maps[number + 1 :]:
            differences = [a - b for a, b in zip(distances[one], distances[other], strict=True)]
            print(f"{one} - {other}: {interval(differences)}")
    print(f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    means = {map_: statistics.mean(values) for map_, values in distances.items()}
    ratio = means[arguments.maps[-1]] / means[arguments.maps[0]]
    print(json.dumps({"ratio": round(ratio, 3), "frechet": distances, "real_half": real}))


if __name__ == "__main__":
    main()
