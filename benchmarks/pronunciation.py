"""Compare models of English pronunciation with Phonetisaurus (joint n-grams of letters and phonemes).

    dragoman corpus fetch cmudict --out corpora
    python benchmarks/pronunciation.py corpora/cmudict/train.tsv corpora/cmudict/test.tsv MODEL [MODEL ...]

Phonetisaurus (Novak et al., 2016) is trained on the same words with the default settings of its package. Each model is
evaluated alone, with a beam of 4, and several models also as an ensemble; if there are models of both directions
(tokenizer.right_to_left), also the ensemble of each direction. Errors are counted against the nearest of a word's
pronunciations. Intervals are those of the test set (paired bootstrap). The script also prints the errors of the last
system on a sample of training words, for comparison with those on test words. The last line is JSON and begins with the
ratio of Phonetisaurus' share of wrong words to that of the last system.
"""

import argparse
import json
import platform
import random
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import phonetisaurus

from dragoman import Translator, __version__
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.evaluation.error_rates import compare_symbols, symbol_metrics
from dragoman.evaluation.references import group_references
from dragoman.models.description import load_description

PEER = "Phonetisaurus"
# Number of training words in the sample.
SEEN = 2000


def joined(spelling: str) -> str:
    """Return a word without the spaces that separate its letters in the corpus."""
    return spelling.replace(" ", "")


def peer_outputs(training: list[Pair], words: list[str]) -> tuple[list[str], float]:
    """Return Phonetisaurus' pronunciation of each word ("" if it has none) and its training time in seconds."""
    lexicon = group_references((joined(pair.source), pair.target) for pair in training)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.fst"
        start = time.monotonic()
        phonetisaurus.train(
            {word: [phonemes.split() for phonemes in pronunciations] for word, pronunciations in lexicon.items()}, model
        )
        seconds = time.monotonic() - start
        predicted = {word: " ".join(phonemes) for word, phonemes in phonetisaurus.predict(map(joined, words), model)}
    return [predicted.get(joined(word), "") for word in words], seconds


def model_outputs(models: list[Path], words: list[str]) -> list[str]:
    return [translation.text for translation in Translator.load(models[0], *models[1:]).translate(words)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", help="training corpus")
    parser.add_argument("test", help="test corpus")
    parser.add_argument("models", type=Path, nargs="+", help="model directories")
    options = parser.parse_args()
    references = group_references(read_pairs(parse_corpus(options.test)))
    words = list(references)
    systems = {str(model): model_outputs([model], words) for model in options.models}
    directions: dict[str, list[Path]] = {"left to right": [], "right to left": []}
    for model in options.models:
        directions["right to left" if load_description(model).right_to_left else "left to right"].append(model)
    for direction, models in directions.items():
        if 1 < len(models) < len(options.models):
            systems[f"ensemble of {len(models)}, {direction}"] = model_outputs(models, words)
    if len(options.models) > 1:
        systems[f"ensemble of {len(options.models)}"] = model_outputs(options.models, words)
    last = list(systems)[-1]
    training = list(read_pairs(parse_corpus(options.train)))
    seen_references = group_references(training)
    seen = random.Random(1).sample(list(seen_references), min(SEEN, len(seen_references)))
    seen_outputs = model_outputs(options.models, seen)
    seen_wrong = symbol_metrics(seen_outputs, [seen_references[word] for word in seen], seen).rates.sequence_error_rate
    peer, seconds = peer_outputs(training, words)
    comparison_table = compare_symbols(list(references.values()), PEER, {PEER: peer, **systems})
    print(comparison_table.table())
    print(
        f"{len(words):,} words; {PEER} trained for {seconds / 60:.1f} minutes; dragoman {__version__}, phonetisaurus "
        f"{version('phonetisaurus')}, torch {version('torch')}, Python {platform.python_version()}"
    )
    print(f"{last}: {seen_wrong:.1f} % of {len(seen):,} training words wrong")
    wrong = {
        result.system: result.value for result in comparison_table.results if result.metric == "sequence error rate"
    }
    print(
        json.dumps(
            {"ratio": wrong[PEER] / wrong[last], "words_wrong": wrong, "words": len(words), "seen_wrong": seen_wrong}
        )
    )


if __name__ == "__main__":
    main()
