"""Measure the confidence of `dragoman calibrate`, and the marks of uncertain sentences on the server's page.

    python benchmarks/confidence.py MODEL VALID.tsv TEST.tsv [TEST.tsv...]

The confidence is fitted to the lines of VALID, and measured on each TEST: expected calibration error in ten bins, and
Brier score. Peers, on the same lines: the probabilities of the model themselves (certainty), the share of good lines of
VALID for every line, and scikit-learn's logistic regression and isotonic regression. A second table has the error on
the first TEST of fits to fewer lines, as the mean of 20 draws. A third table shows what a chrF means, in edits. The
last one shows for thresholds of the confidence, and of the score, how many sentences are marked, and how many of the
marked and of the other sentences are good. The last line is JSON and begins with the ratio of the calibration errors of
certainty and confidence on the first TEST.
"""

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sacrebleu.metrics.ter import TER
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from dragoman import Translator, __version__
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.evaluation.calibration import Reliability, reliability
from dragoman.evaluation.logistic import fit_logistic
from dragoman.evaluation.metrics import sentence_chrf
from dragoman.evaluation.tables import aligned
from dragoman.translation.confidence import GOOD_CHRF
from dragoman.translation.rated_lines import RatedLines

Vector = NDArray[np.float64]
Method = Callable[[Vector], Vector]
DRAWS = 20
SIZES = (100, 300, 1000)
CHRF_BANDS = (0, 40, 50, 60, 70, 80, 90, 101)
CONFIDENCES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5)
SCORES = (-1.0, -1.5, -2.0, -2.5, -3.0, -3.5, -4.0)


class Lines:
    """The translated lines of a corpus.

    Args:
        translator: the model.
        corpus: name of the corpus.
    """

    def __init__(self, translator: Translator, corpus: str) -> None:
        pairs = list(read_pairs(parse_corpus(corpus)))
        translations = translator.translate([pair.source for pair in pairs])
        self.name = "/".join(corpus.split("/")[-3:])
        self.references = [pair.target for pair in pairs]
        self.texts = [translation.text for translation in translations]
        self.rated = RatedLines.of(translations, self.references)
        self.certainty = np.array(self.rated.certainties)
        self.good = np.array(self.rated.good)
        self.scores = np.array([translation.score for translation in translations])
        self.all_good = np.array(sentence_chrf(self.texts, self.references)) >= GOOD_CHRF


def confidence(certainty: Vector, good: NDArray[np.bool_]) -> Method:
    """Fit as `dragoman calibrate` does, also to few lines."""
    fitted = fit_logistic(certainty.tolist(), good.tolist())
    return lambda x: np.array([fitted(value) for value in x])


def sklearn_logistic(certainty: Vector, good: NDArray[np.bool_]) -> Method:
    """Fit scikit-learn's logistic regression, without regularisation."""
    model = LogisticRegression(C=np.inf).fit(certainty[:, None], good)
    return lambda x: np.asarray(model.predict_proba(x[:, None])[:, 1])


def sklearn_logistic_of_logarithm(certainty: Vector, good: NDArray[np.bool_]) -> Method:
    """Fit scikit-learn's logistic regression to the mean log-probability."""
    fitted = sklearn_logistic(np.log(certainty), good)
    return lambda x: fitted(np.log(x))


def sklearn_isotonic(certainty: Vector, good: NDArray[np.bool_]) -> Method:
    """Fit scikit-learn's isotonic regression."""
    model = IsotonicRegression(out_of_bounds="clip").fit(certainty, good)
    return lambda x: np.asarray(model.predict(x))


def certainty_itself(_certainty: Vector, _good: NDArray[np.bool_]) -> Method:
    """Take the probabilities of the model as they are."""
    return lambda x: x


def base_rate(_certainty: Vector, good: NDArray[np.bool_]) -> Method:
    """Take the share of good lines for every line."""
    return lambda x: np.full(len(x), good.mean())


METHODS = {
    "confidence": confidence,
    "sklearn logistic": sklearn_logistic,
    "sklearn logistic, mean log-probability": sklearn_logistic_of_logarithm,
    "sklearn isotonic": sklearn_isotonic,
    "certainty": certainty_itself,
    "base rate": base_rate,
}


def measured(method: Method, lines: Lines, samples: int = 1000) -> Reliability:
    return reliability(np.clip(method(lines.certainty), 0, 1).tolist(), list(lines.rated.good), samples=samples)


def error_table(fitted: dict[str, Method], tests: Sequence[Lines]) -> tuple[str, dict[str, dict[str, float]]]:
    rows = [("test", "method", "error %", "bootstrap samples", "Brier")]
    numbers: dict[str, dict[str, float]] = {}
    for test in tests:
        for name, method in fitted.items():
            result = measured(method, test)
            ends = result.error_samples
            interval = f"{100 * ends.low:.1f} to {100 * ends.high:.1f}"
            rows.append((test.name, name, f"{100 * result.error:.1f}", interval, f"{result.brier:.4f}"))
            numbers.setdefault(test.name, {})[name] = round(result.error, 4)
    return aligned(rows, names=2), numbers


def size_table(valid: Lines, test: Lines) -> str:
    generator = np.random.default_rng(1)
    rows = [("lines", *list(METHODS)[:4])]
    for size in SIZES:
        errors: dict[str, list[float]] = {name: [] for name in list(METHODS)[:4]}
        for _ in range(DRAWS):
            drawn = generator.choice(len(valid.good), size, replace=False)
            for name in errors:
                method = METHODS[name](valid.certainty[drawn], valid.good[drawn])
                errors[name].append(measured(method, test, samples=40).error)
        rows.append((f"{size:,}", *(f"{100 * np.mean(values):.1f}" for values in errors.values())))
    return aligned(rows, names=0)


def chrf_table(test: Lines) -> str:
    ter, chrf = TER(), np.array(sentence_chrf(test.texts, test.references))
    edits = np.array(
        [ter.sentence_score(text, [each]).score for text, each in zip(test.texts, test.references, strict=True)]
    )
    words = np.array([len(reference.split()) for reference in test.references])
    rows = [("chrF from", "lines", "median TER", "median edits")]
    for low, high in pairwise(CHRF_BANDS):
        band = (chrf >= low) & (chrf < high)
        rows.append(
            (
                str(low),
                f"{band.sum():,}",
                f"{np.median(edits[band]):.0f}",
                f"{np.median(edits[band] * words[band] / 100):.0f}",
            )
        )
    return aligned(rows, names=0)


def mark_rows(name: str, values: Vector, good: NDArray[np.bool_], thresholds: Sequence[float]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for threshold in thresholds:
        marked = values < threshold
        caught, lost = (marked & ~good).sum() / (~good).sum(), (marked & good).sum() / good.sum()
        rows.append(
            (
                f"{name} < {threshold:g}",
                f"{100 * marked.mean():.0f}",
                f"{100 * good[marked].mean():.0f}",
                f"{100 * good[~marked].mean():.0f}",
                f"{caught - lost:.2f}",
            )
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("valid")
    parser.add_argument("tests", nargs="+", metavar="test")
    arguments = parser.parse_args()
    libraries = ", ".join(f"{name} {version(name)}" for name in ("numpy", "sacrebleu", "scikit-learn"))
    print(f"dragoman {__version__}, {libraries}, Python {platform.python_version()}")
    translator = Translator.load(arguments.model)
    valid, *tests = (Lines(translator, corpus) for corpus in (arguments.valid, *arguments.tests))
    for lines in (valid, *tests):
        print(f"{lines.name}: {len(lines.good):,} lines, {100 * lines.good.mean():.1f} % good")
    fitted = {name: fit(valid.certainty, valid.good) for name, fit in METHODS.items()}
    table, errors = error_table(fitted, tests)
    print(f"\n{table}")
    print(f"\nerror in % on {tests[0].name}, by the number of lines of the fit\n{size_table(valid, tests[0])}")
    print(f"\n{tests[0].name}\n{chrf_table(tests[0])}")
    for lines in (valid, *tests):
        rows: list[tuple[str, ...]] = [
            ("marked if", "marked %", "good of these %", "good of others %", "caught minus lost")
        ]
        rows += mark_rows("confidence", fitted["confidence"](lines.certainty), lines.good, CONFIDENCES)
        rows += mark_rows("score", lines.scores, lines.all_good, SCORES)
        print(f"\n{lines.name}\n{aligned(rows, names=1)}")
    first = errors[tests[0].name]
    print(json.dumps({"error_ratio": round(first["certainty"] / first["confidence"], 1), "errors": errors}))


if __name__ == "__main__":
    main()
