"""Compare a vision Transformer, a convolutional network and logistic regression in equal processor time.

    dragoman corpus fetch mnist-5k --out corpora
    python benchmarks/picture_classes.py corpora/mnist-5k RUNS --size 28 --grey

CORPUS has train/, valid/ and test/ with a subfolder for each label. RUNS receives a model directory for each network
and seed; those that are there are not trained again. The processor time of an update of each network is measured first,
and the number of updates is that of --minutes, so that other work on the machine changes nothing. The learning rate of
each network is the one of --rates that is best on valid/ after a third of the time, with the first seed. A network
keeps the weights of its best validation. Logistic regression, on pixels, is fitted once, with the regularisation that
is best on valid/; it needs less time. Intervals are by bootstrap over the test pictures. The last line is JSON and
begins with the ratio of the accuracies of the Transformer and the convolutional network.
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Literal

import numpy as np
import sklearn
import torch
from jaxtyping import Bool, Float
from sklearn.linear_model import LogisticRegression

from dragoman import __version__, train
from dragoman.data.picture_reading import PictureSet, read_pictures
from dragoman.images.picture_classifier import PictureClassifier

STRENGTHS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1)
SAMPLES, SEED = 10_000, 12345
# Numbers of updates of two short trainings, whose difference in processor time is that of updates alone.
CALIBRATION = (10, 50)
NETWORKS = {"vision": "vision", "convolution": "image-convolution"}


def pixels(pictures: PictureSet) -> Float[np.ndarray, "N P"]:
    """Return pixels from -1 to 1."""
    # [N, H, W, C] -> [N, H*W*C]
    values: Float[np.ndarray, "N P"] = pictures.images.reshape(len(pictures), -1) / 127.5 - 1
    return values


def fit_regression(training: PictureSet, validation: PictureSet) -> LogisticRegression:
    """Return the logistic regression that is best on the validation pictures."""
    fitted = [
        LogisticRegression(C=strength, max_iter=2000).fit(pixels(training), training.labels) for strength in STRENGTHS
    ]
    return max(fitted, key=lambda model: float(model.score(pixels(validation), validation.labels)))


def right_labels(model: Path, pictures: PictureSet) -> Bool[np.ndarray, " N"]:
    """Return whether a model gives each picture its label."""
    assert pictures.labels is not None
    labelled = PictureClassifier.load(model, device="cpu").classify(pictures.images)
    references = np.array(pictures.label_names)[pictures.labels]
    return np.array([label for label, _ in labelled]) == references


def interval(right: Float[np.ndarray, " N"]) -> str:
    """Return the mean in percent with its 95 % interval, for a value of each test picture."""
    generator = np.random.default_rng(SEED)
    means = right[generator.integers(len(right), size=(SAMPLES, len(right)))].mean(axis=1)
    low, high = np.percentile(means, (2.5, 97.5))
    return f"{100 * right.mean():6.1f} ({100 * low:.1f} to {100 * high:.1f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--minutes", type=float, default=1.5, help="of processor time, for each network and seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--preset", default="mini")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.003, 0.01])
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--grey", action="store_true")
    arguments = parser.parse_args()
    channels: Literal[1, 3] = 1 if arguments.grey else 3

    def read(part: str, labels: tuple[str, ...] | None = None) -> PictureSet:
        folder = arguments.corpus / part
        return read_pictures(
            folder, arguments.size, channels=channels, broken="refuse", animated="refuse", labels=labels
        )

    training = read("train")
    names = training.label_names
    validation, test = read("valid", names), read("test", names)
    assert test.labels is not None
    # Share of the seeds with which each test picture was right.
    right: dict[str, Float[np.ndarray, " N"]] = {}
    start = time.monotonic()
    regression = fit_regression(training, validation)
    print(f"logistic regression: C {regression.C}, all strengths in {time.monotonic() - start:.0f} s", flush=True)
    right["regression"] = (regression.predict(pixels(test)) == test.labels).astype(np.float64)
    for network, architecture in NETWORKS.items():

        def train_network(steps: int, rate: float, seed: int, name: str, architecture: str = architecture) -> Path:
            out: Path = arguments.runs / name
            settings = {
                "task": "classify-images",
                "architecture": architecture,
                "preset": arguments.preset,
                "data": {"size": arguments.size, "channels": channels},
                "training": {"steps": steps, "seed": seed},
                "schedule": {"peak_learning_rate": rate},
            }
            train([str(arguments.corpus / "train")], out, validation=str(arguments.corpus / "valid"), settings=settings)
            return out

        def accuracy(out: Path) -> float:
            return float(right_labels(out, validation).mean())

        times = []
        for steps in CALIBRATION:
            processor_start = time.process_time()
            train_network(steps, arguments.rates[0], 1, f"{network}-calibration-{steps}")
            times.append(time.process_time() - processor_start)
        seconds = (times[1] - times[0]) / (CALIBRATION[1] - CALIBRATION[0])
        updates = int(60 * arguments.minutes / seconds)
        tried = {
            rate: accuracy(train_network(updates // 3, rate, arguments.seeds[0], f"{network}-rate-{rate}"))
            for rate in arguments.rates
        }
        rate = max(tried, key=lambda rate: tried[rate])
        print(f"{network}: {updates:,} updates; rate {rate} of {tried}", flush=True)
        of_seeds = []
        for seed in arguments.seeds:
            out = train_network(updates, rate, seed, f"{network}-seed-{seed}")
            of_seeds.append(right_labels(out, test))
            print(f"{out.name}: {100 * of_seeds[-1].mean():.1f} %", flush=True)
        # S x [N] -> [N]
        right[network] = np.mean(of_seeds, axis=0)
    print(
        f"\naccuracy in % on {len(test):,} pictures with {len(names)} labels, "
        f"{arguments.minutes:g} minutes of processor time each"
    )
    for name, values in right.items():
        print(f"{name:<14}{interval(values)}")
    for one, other in (("vision", "convolution"), ("vision", "regression"), ("convolution", "regression")):
        print(f"{one} - {other}: {interval(right[one] - right[other])}")
    versions = f"torch {torch.__version__}, scikit-learn {sklearn.__version__}, Python {platform.python_version()}"
    print(f"dragoman {__version__}, {versions}, {torch.get_num_threads()} threads")
    accuracies = {name: round(100 * float(values.mean()), 1) for name, values in right.items()}
    print(json.dumps({"ratio": round(accuracies["vision"] / accuracies["convolution"], 3), "accuracy": accuracies}))


if __name__ == "__main__":
    main()
