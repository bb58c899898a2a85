"""Classify package descriptions by section: pre-trained against from scratch against TF-IDF, with few and many labels.

    dragoman corpus fetch debian-sections --out corpora
    cut -f1 corpora/debian-sections/train.tsv > descriptions.txt
    dragoman train --task masked descriptions.txt --config recipes/representations.toml --out models/descriptions
    python benchmarks/representations.py models/descriptions corpora/debian-sections --labels 100 1000 0

The labels are a random sample of train.tsv for each seed; 0 stands for all. Compared on test.tsv, which contains
other source packages, are:

- pre-trained: `dragoman train --task classify --from MODEL`, where MODEL was trained by masking on the same
  descriptions without their labels;
- from scratch: the same command with a model of the same settings and vocabulary and random weights, and with the
  learning rate that is the default without --from;
- TF-IDF with logistic regression (scikit-learn): words, sublinear term frequencies, the regularisation of --strengths
  that is best on valid.tsv;
- latent semantic analysis, which like pre-training uses the descriptions without labels: the TF-IDF of all of them,
  reduced to the --components that are best on valid.tsv, with logistic regression.

The trained models are also selected on valid.tsv, so that all systems see the same labels. A further row shows the most
frequent section. The last line is JSON and begins with the ratio of the accuracy of the pre-trained model to that of
TF-IDF for the first number of labels.
"""

import argparse
import json
import platform
import random
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from probing import random_copy
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize

from dragoman import __version__
from dragoman.data.readers import Pair, parse_corpus, read_pairs

Vectors = NDArray[np.float64]


class Scores(NamedTuple):
    """Accuracy and macro F1 on the test set, in percent."""

    accuracy: float
    macro_f1: float


def read(path: Path) -> list[Pair]:
    return list(read_pairs(parse_corpus(str(path))))


def scores(predicted: Sequence[str], test: Sequence[Pair]) -> Scores:
    labels = [pair.target for pair in test]
    right = sum(a == b for a, b in zip(predicted, labels, strict=True))
    return Scores(100 * right / len(labels), 100 * float(f1_score(labels, predicted, average="macro")))


def tf_idf(train: Sequence[Pair], valid: Sequence[Pair], test: Sequence[Pair], strengths: Sequence[float]) -> Scores:
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    x = vectorizer.fit_transform([pair.source for pair in train])
    held_out, unseen = (vectorizer.transform([pair.source for pair in part]) for part in (valid, test))
    models = [LogisticRegression(C=c, max_iter=300).fit(x, [pair.target for pair in train]) for c in strengths]
    best = max(models, key=lambda model: scores(model.predict(held_out), valid).accuracy)
    return scores(best.predict(unseen), test)


def semantic_spaces(
    pairs: Sequence[Pair], parts: Sequence[Sequence[Pair]], components: Sequence[int]
) -> list[list[Vectors]]:
    """Return the vectors of the descriptions of each part, for each number of components; all have length 1."""
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, max_df=0.3)
    unlabelled = vectorizer.fit_transform([pair.source for pair in pairs])
    features = [vectorizer.transform([pair.source for pair in part]) for part in parts]
    reductions = [TruncatedSVD(number, random_state=0).fit(unlabelled) for number in components]
    return [[normalize(reduction.transform(part)) for part in features] for reduction in reductions]


def lsa(
    spaces: list[list[Vectors]], rows: Sequence[int], parts: Sequence[Sequence[Pair]], strengths: Sequence[float]
) -> Scores:
    """Return the result of latent semantic analysis.

    Args:
        spaces: vectors of the training, validation and test part, for each number of components.
        rows: indices of the labelled descriptions in the training part.
        parts: the training, validation and test part.
        strengths: strengths of the regularisation.
    """
    train, valid, test = parts
    labels = [train[row].target for row in rows]
    models = [
        (LogisticRegression(C=c, max_iter=300).fit(space[0][rows], labels), space)
        for space in spaces
        for c in strengths
    ]
    model, space = max(models, key=lambda each: scores(each[0].predict(each[1][1]), valid).accuracy)
    return scores(model.predict(space[2]), test)


def fine_tuned(start: Path, train: Path, corpus: Path, out: Path, options: Sequence[str]) -> Scores:
    """Fine-tune a model with the command line, and evaluate it."""
    command = [sys.executable, "-m", "dragoman"]
    subprocess.run(
        [
            *(*command, "train", "--task", "classify", "--from", str(start), str(train)),
            *("--validation", str(corpus / "valid.tsv"), "--out", str(out), *options),
        ],
        check=True,
        capture_output=True,
    )
    evaluated = subprocess.run(
        [*command, "evaluate", str(out), str(corpus / "test.tsv"), "--json"], check=True, capture_output=True
    )
    result = json.loads(evaluated.stdout)
    return Scores(100 * result["accuracy"], 100 * result["macro_f1"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model directory of an encoder trained by masking")
    parser.add_argument("corpus", type=Path, help="folder of the corpus debian-sections")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 1000, 0], help="numbers of labels; 0: all")
    parser.add_argument("--steps", type=int, nargs="+", default=[200, 600, 3000], help="updates for each number")
    parser.add_argument("--seeds", type=int, default=3, help="samples of labels")
    parser.add_argument("--scratch-rate", type=float, default=0.001, help="peak learning rate from scratch")
    parser.add_argument("--strengths", type=float, nargs="+", default=[3, 10, 30, 100], help="C of the regression")
    parser.add_argument("--components", type=int, nargs="+", default=[100, 300], help="components of LSA")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    options = parser.parse_args()
    if len(options.steps) != len(options.labels):
        parser.error("--steps and --labels must have the same length")
    pairs, valid, test = (read(options.corpus / f"{part}.tsv") for part in ("train", "valid", "test"))
    parts = [pairs, valid, test]
    spaces = semantic_spaces(pairs, parts, options.components)
    frequent = Counter(pair.target for pair in pairs).most_common(1)[0][0]
    baseline = scores([frequent] * len(test), test)

    table: dict[int, dict[str, list[Scores]]] = {}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        random_copy(options.model, folder / "random")
        for number, steps in zip(options.labels, options.steps, strict=True):
            results: dict[str, list[Scores]] = defaultdict(list)
            for seed in range(options.seeds):
                rows = random.Random(seed).sample(range(len(pairs)), number) if number else range(len(pairs))
                sample = [pairs[row] for row in rows]
                train = folder / f"{number}-{seed}.tsv"
                lines = "".join(f"{pair.source}\t{pair.target}\n" for pair in sample)
                train.write_text(lines, encoding="utf-8")
                settings = [f"training.steps={steps}", f"training.seed={seed}", *options.set]
                set_options = [word for setting in settings for word in ("--set", setting)]
                scratch_options = ["--set", f"schedule.peak_learning_rate={options.scratch_rate}", *set_options]
                for name, start, words in (
                    ("pre-trained", options.model, set_options),
                    ("from scratch", folder / "random", scratch_options),
                ):
                    out = folder / f"{name}-{number}-{seed}"
                    results[name].append(fine_tuned(start, train, options.corpus, out, words))
                    print(f"{number or len(pairs)} labels, seed {seed}, {name}: {results[name][-1]}", file=sys.stderr)
                # Without a sample, the result does not depend on the seed.
                if number or not seed:
                    results["TF-IDF"].append(tf_idf(sample, valid, test, options.strengths))
                    results["LSA"].append(lsa(spaces, rows, parts, options.strengths))
            table[number or len(pairs)] = dict(results)

    print(f"{'labels':>7}  {'system':<14}{'accuracy, %':>12}  {'lowest to highest':<18}{'macro F1, %':>12}")
    for number, results in table.items():
        for name, values in results.items():
            accuracies = [value.accuracy for value in values]
            spread = f"{min(accuracies):.1f} to {max(accuracies):.1f}"
            f1 = statistics.mean(value.macro_f1 for value in values)
            print(f"{number:>7,}  {name:<14}{statistics.mean(accuracies):>12.1f}  {spread:<18}{f1:>12.1f}")
    print(f"{'':>7}  {'most frequent':<14}{baseline.accuracy:>12.1f}  {'':<18}{baseline.macro_f1:>12.1f}")
    print(
        f"{len(test):,} test descriptions, {len({pair.target for pair in pairs})} sections; dragoman {__version__}, "
        f"scikit-learn {version('scikit-learn')}, Python {platform.python_version()}"
    )
    mean = {
        number: {name: statistics.mean(value.accuracy for value in values) for name, values in results.items()}
        for number, results in table.items()
    }
    first = next(iter(mean.values()))
    print(json.dumps({"ratio": first["pre-trained"] / first["TF-IDF"], "accuracy": mean}))


if __name__ == "__main__":
    main()
