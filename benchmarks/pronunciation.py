"""How English words are pronounced: our models beside Phonetisaurus, joint n-grams of letters and phonemes.

    dragoman corpus fetch cmudict --out corpora
    python benchmarks/pronunciation.py corpora/cmudict/train.tsv corpora/cmudict/test.tsv MODEL [MODEL ...]

Phonetisaurus (Novak et al., 2016) is trained here, on the same words, with its package's settings. Each model is scored
alone, with a beam of 4, and several also as an ensemble; of models of both directions (tokenizer.right_to_left) those
of each, and all together. All by the project's own metric, against the nearest of a word's pronunciations. The spread
is that of the test set (paired bootstrap). What the last row has wrong of words of training, drawn by a seed, is
printed too: the gap to the test's figure is what generalisation lacks. The last line is JSON, the ratio first:
Phonetisaurus' share of wrong words over that of the last row.
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
# Words of training that are scored too.
SEEN = 2000


def joined(spelling: str) -> str:
    """A word as one writes it: in the corpus, letters stand apart."""
    return spelling.replace(" ", "")


def peer_outputs(training: list[Pair], words: list[str]) -> tuple[list[str], float]:
    """Phonetisaurus' pronunciation of each word, "" where it has none, and the seconds that its training took."""
    lexicon = group_references((joined(pair.source), pair.target) for pair in training)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.fst"
        started = time.monotonic()
        phonetisaurus.train({word: [each.split() for each in said] for word, said in lexicon.items()}, model)
        seconds = time.monotonic() - started
        found = {word: " ".join(phonemes) for word, phonemes in phonetisaurus.predict(map(joined, words), model)}
    return [found.get(joined(word), "") for word in words], seconds


def model_outputs(models: list[Path], words: list[str]) -> list[str]:
    return [translation.text for translation in Translator.load(models[0], *models[1:]).translate(words)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("models", type=Path, nargs="+")
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
    said = model_outputs(options.models, seen)
    seen_wrong = symbol_metrics(said, [seen_references[word] for word in seen], seen).rates.sequence_error_rate
    peer, seconds = peer_outputs(training, words)
    found = compare_symbols(list(references.values()), PEER, {PEER: peer, **systems})
    print(found.table())
    print(
        f"{len(words):,} words; {PEER} trained for {seconds / 60:.1f} minutes; dragoman {__version__}, phonetisaurus "
        f"{version('phonetisaurus')}, torch {version('torch')}, Python {platform.python_version()}"
    )
    print(f"of {len(seen):,} words of training, {last} has {seen_wrong:.1f} % wrong")
    wrong = {result.system: result.value for result in found.results if result.metric == "sequence error rate"}
    print(
        json.dumps(
            {"ratio": wrong[PEER] / wrong[last], "words_wrong": wrong, "words": len(words), "seen_wrong": seen_wrong}
        )
    )


if __name__ == "__main__":
    main()
