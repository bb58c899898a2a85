"""Measure how well the probability of a word tells whether the word is right.

    python benchmarks/uncertain_words.py MODEL TEST.tsv... --lines 1000

Each line is translated with a beam of 5. A word of the output counts as right if the reference has it, as often as the
output does, whatever its case and the punctuation around it; that is a strict measure, since references are only one
of several good translations. Compared are the probability of the word, as `dragoman serve` returns it, and the score
of its sentence. AUC is the probability that a right word has a higher value than a wrong one. The last line is JSON
and begins with the ratio of the distances of both from 0.5.
"""

import argparse
import json
import string
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from serving_load import processor

from dragoman import Translator, __version__
from dragoman.data.readers import parse_corpus, read_corpora
from dragoman.search.config import SearchConfig
from dragoman.translation.results import Translation

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)


def translated(translator: Translator, line: str, search: SearchConfig) -> Translation:
    """Return the translation of a line, with the probabilities of its words."""
    steps = translator.line_steps(line, words=True)
    try:
        inputs = next(steps)
        while True:
            inputs = steps.send(translator.backend.search(inputs, search))
    except StopIteration as end:
        translation: Translation = end.value
        return translation


def bare(word: str) -> str:
    """Return a word without its case and the punctuation around it."""
    return word.strip(string.punctuation + "…„“”‚‘»«").casefold()


def right_words(words: list[str], reference: str) -> list[bool]:
    """Return for each word whether the reference has it, as often as the words before it and itself."""
    left = Counter(map(bare, reference.split()))
    right = []
    for word in map(bare, words):
        right.append(left[word] > 0)
        left[word] -= 1
    return right


def auc(values: np.ndarray, right: np.ndarray) -> float:
    """Return the probability that a right word has a higher value than a wrong one."""
    wrong, good = np.sort(values[~right]), values[right]
    below, above = np.searchsorted(wrong, good, "left"), np.searchsorted(wrong, good, "right")
    return float((below + above).mean() / 2 / len(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("test", nargs="+")
    parser.add_argument("--lines", type=int, default=1000)
    arguments = parser.parse_args()
    translator, search = Translator.load(arguments.model, device="cpu"), SearchConfig(beam=5)
    pairs = list(read_corpora([parse_corpus(corpus) for corpus in arguments.test]))[: arguments.lines]
    of_words: list[float] = []
    of_sentences: list[float] = []
    labels: list[bool] = []
    for pair in pairs:
        translation = translated(translator, pair.source, search)
        words = translation.text.split(" ")
        assert translation.word_probabilities is not None
        assert len(words) == len(translation.word_probabilities)
        for word, probability, label in zip(
            words, translation.word_probabilities, right_words(words, pair.target), strict=True
        ):
            if bare(word):
                of_words.append(probability)
                of_sentences.append(translation.score)
                labels.append(label)
    probabilities, scores, right = np.array(of_words), np.array(of_sentences), np.array(labels)
    print(f"{processor()}; Dragoman {__version__}, Python {sys.version.split()[0]}")
    print(f"{len(pairs):,} lines, {len(right):,} words, {100 * right.mean():.0f} % right\n")
    print("| marked if | marked, % | right of these, % | right of the others, % |\n|---|--:|--:|--:|")
    for threshold in THRESHOLDS:
        marked = probabilities < threshold
        shares = [100 * float(part.mean()) for part in (marked, right[marked], right[~marked])]
        print(f"| probability < {threshold} | " + " | ".join(f"{share:.0f}" for share in shares) + " |")
    by_word, by_sentence = auc(probabilities, right), auc(scores, right)
    print(f"\nAUC: {by_word:.3f} by the probability of the word, {by_sentence:.3f} by the score of its sentence")
    ratio = round((by_word - 0.5) / (by_sentence - 0.5), 2)
    print(json.dumps({"ratio": ratio, "word": by_word, "sentence": by_sentence}))


if __name__ == "__main__":
    main()
