"""Probe each layer of a model: what can be read from its vectors, and whether they distinguish the senses of a word.

    dragoman corpus fetch debian-sections --out corpora
    dragoman train --task masked descriptions.txt --out models/descriptions
    python benchmarks/probing.py models/descriptions corpora/debian-sections --out probes.png

A probe is a logistic regression from the vectors of one layer, which are not changed. It is trained on descriptions of
train.tsv and evaluated on those of test.tsv, which are of other source packages:

- section: of the archive, from the vector of a description;
- length: which quarter of the lengths, from the vector of a description;
- part of speech: from the vector of a word (`part_of_speech.py`: Lingua::EN::Tagger of Debian, which ships its model).

Layer 0 is the embeddings. The same probes are given a model of the same settings with random weights, because a probe
can learn much from random features, and the most frequent class.

Senses of words are those of WordNet (`word_senses.py`: Debian's wordnet-base). An occurrence of a word has the sense of
the nearest other occurrence of the same word, by cosine; occurrences of senses without a second example are only
candidates. Compared are static vectors (the embeddings of the word, which differ only between its forms), static
vectors of the context (mean of the embeddings of the text), and the vectors of the word in each layer. Several
candidates at the same distance count by their share. The last line is JSON and begins with the ratio of the accuracy of
senses of the best layer to that of static vectors.
"""

import argparse
import json
import platform
import random
import shutil
import statistics
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import part_of_speech
import word_senses
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dragoman import Embedder, __version__
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.models.description import load_description
from dragoman.models.registry import build_any
from dragoman.models.storage import save_model, weights_of
from dragoman.representation.embedder import Embeddings

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Descriptions:
    """Descriptions with what is probed.

    Attributes:
        texts: the descriptions.
        sections: section of each.
        words: number of words of each.
        parts: part of speech of each word of each of the first texts.
    """

    texts: list[str]
    sections: list[str]
    words: NDArray[np.int64]
    parts: list[list[str | None]]


def read(path: Path, number: int, tagged: int, perl: Sequence[str], seed: int) -> Descriptions:
    pairs: list[Pair] = list(read_pairs(parse_corpus(str(path))))
    sample = random.Random(seed).sample(pairs, min(number, len(pairs)))
    texts = [" ".join(pair.source.split()) for pair in sample]
    return Descriptions(
        texts,
        [pair.target for pair in sample],
        np.array([len(text.split()) for text in texts]),
        part_of_speech.tag(texts[:tagged], perl),
    )


def accuracy(x: Vectors, y: Sequence[Any], test_x: Vectors, test_y: Sequence[Any]) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=200)).fit(x, y)
    return 100 * float(np.mean(probe.predict(test_x) == np.array(test_y)))


def word_vectors(embeddings: Embeddings, data: Descriptions) -> tuple[Vectors, list[str]]:
    """Return the vectors of the words that have a part of speech, and these."""
    parts = [part for text in data.parts for part in text]
    # A model may have another notion of words for unusual white space; a text is then left out.
    counts = np.bincount(embeddings.texts, minlength=len(data.parts))
    same = np.array([count == len(text) for count, text in zip(counts, data.parts, strict=True)])
    parts = [part for text, kept in zip(data.parts, same, strict=True) if kept for part in text]
    vectors = embeddings.vectors[same[embeddings.texts]]
    kept_words = [index for index, part in enumerate(parts) if part is not None]
    return vectors[kept_words], [part for part in parts if part is not None]


def probe(embedder: Embedder, train: Descriptions, test: Descriptions) -> dict[str, list[float]]:
    """Return the accuracy of each probe for each layer, in percent."""
    borders = np.quantile(train.words, [0.25, 0.5, 0.75])
    quarters = [np.searchsorted(borders, data.words).tolist() for data in (train, test)]
    results: dict[str, list[float]] = defaultdict(list)
    for x, test_x in zip(*(embedder.embed_layers(data.texts) for data in (train, test)), strict=True):
        results["section"].append(accuracy(x.vectors, train.sections, test_x.vectors, test.sections))
        results["length"].append(accuracy(x.vectors, quarters[0], test_x.vectors, quarters[1]))
    tagged = (embedder.embed_layers(data.texts[: len(data.parts)], of="words") for data in (train, test))
    for words, test_words in zip(*tagged, strict=True):
        results["part of speech"].append(accuracy(*word_vectors(words, train), *word_vectors(test_words, test)))
    return results


def most_frequent(train: Descriptions, test: Descriptions) -> dict[str, float]:
    """Return the accuracy of always answering the most frequent class of the training data, in percent."""
    parts = [[part for text in data.parts for part in text if part is not None] for data in (train, test)]
    borders = np.quantile(train.words, [0.25, 0.5, 0.75])
    quarters = [np.searchsorted(borders, data.words).tolist() for data in (train, test)]
    return {
        name: 100 * tested.count(statistics.mode(trained)) / len(tested)
        for name, trained, tested in (
            ("section", train.sections, test.sections),
            ("length", quarters[0], quarters[1]),
            ("part of speech", parts[0], parts[1]),
        )
    }


def sense_accuracy(vectors: Vectors, occurrences: Sequence[word_senses.Occurrence]) -> float:
    """Return how often the nearest other occurrence of the same word has the same sense, in percent."""
    centred = vectors - vectors.mean(axis=0)
    directions = centred / np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-9)
    by_lemma: dict[str, list[int]] = defaultdict(list)
    for index, occurrence in enumerate(occurrences):
        by_lemma[occurrence.lemma].append(index)
    right: list[float] = []
    for indices in by_lemma.values():
        # [n, D] x [D, n] -> [n, n]
        cosines = directions[indices] @ directions[indices].T
        np.fill_diagonal(cosines, -np.inf)
        senses = [occurrences[index].sense for index in indices]
        for row, sense in zip(cosines, senses, strict=True):
            if senses.count(sense) > 1:
                nearest = np.flatnonzero(row > row.max() - 1e-5)
                right.append(float(np.mean([senses[i] == sense for i in nearest])))
    return 100 * statistics.mean(right)


def senses(embedder: Embedder, occurrences: Sequence[word_senses.Occurrence]) -> dict[str, float]:
    """Return the accuracy of senses for static vectors and for each layer, in percent."""
    texts = [occurrence.text for occurrence in occurrences]
    places = [len(occurrence.text[: occurrence.start + 1].split()) - 1 for occurrence in occurrences]
    results = {
        "any other occurrence": sense_accuracy(np.zeros((len(texts), 1), np.float32), occurrences),
        "static, context": sense_accuracy(embedder.embed(texts, layer=0).vectors, occurrences),
    }
    for layer, embeddings in enumerate(embedder.embed_layers(texts, of="words")):
        starts = np.searchsorted(embeddings.texts, np.arange(len(texts)))
        vectors = embeddings.vectors[starts + np.array(places)]
        results[f"layer {layer}" if layer else "static, word"] = sense_accuracy(vectors, occurrences)
    return results


def draw(path: Path, trained: dict[str, list[float]], control: dict[str, list[float]], named: dict[str, float]) -> None:
    """Draw the accuracy of each probe, and of senses, against the layer."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 3.2), layout="constrained")
    axes = figure.subplots(1, len(trained) + 1)
    for axis, name in zip(axes, trained, strict=False):
        axis.plot(trained[name], "o-", label="trained")
        axis.plot(control[name], "o--", color="gray", label="random weights")
        axis.set(title=name, xlabel="layer", xticks=range(len(trained[name])))
    axes[0].set_ylabel("accuracy of the probe, %")
    axes[0].legend()
    layers = [named["static, word"], *(value for name, value in named.items() if name.startswith("layer"))]
    axes[-1].plot(layers, "o-")
    axes[-1].axhline(named["static, context"], color="gray", linestyle="--", label="static vectors of the context")
    axes[-1].axhline(named["any other occurrence"], color="gray", linestyle=":", label="any other occurrence")
    axes[-1].set(title="senses of words", xlabel="layer", xticks=range(len(layers)))
    axes[-1].legend()
    figure.savefig(path, dpi=150)


def random_copy(model: Path, out: Path) -> None:
    """Write a model directory with the same settings and vocabulary, and random weights."""
    description = load_description(model)
    out.mkdir()
    for path in model.glob("tokenizer*.model"):
        shutil.copy(path, out)
    save_model(out, description, weights_of(build_any(description.model)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="model directory, of any kind")
    parser.add_argument("corpus", type=Path, help="folder of the corpus debian-sections")
    parser.add_argument("--out", type=Path, help="picture to write (.png, .svg)")
    parser.add_argument("--texts", type=int, default=3000, help="descriptions to train a probe on")
    parser.add_argument("--tagged", type=int, default=400, help="of these, descriptions with parts of speech")
    parser.add_argument("--wordnet", type=Path, default=word_senses.DIRECTORY, help="folder of WordNet's files")
    parser.add_argument("--perl", nargs="*", default=[], help="options of perl, such as -I/folder/of/the/tagger")
    parser.add_argument("--seed", type=int, default=1, help="seed of the samples")
    options = parser.parse_args()
    train, test = (
        read(options.corpus / f"{part}.tsv", number, tagged, options.perl, options.seed)
        for part, number, tagged in (
            ("train", options.texts, options.tagged),
            ("test", options.texts // 2, options.tagged // 2),
        )
    )
    occurrences = word_senses.read_occurrences(options.wordnet)
    embedder = Embedder.load(options.model)
    with TemporaryDirectory() as temporary:
        random_copy(options.model, Path(temporary) / "random")
        control = probe(Embedder.load(Path(temporary) / "random"), train, test)
    trained, frequent, named = probe(embedder, train, test), most_frequent(train, test), senses(embedder, occurrences)

    print(f"{'probe':<16}{'most frequent':>14}  layers 0 to {len(trained['section']) - 1}")
    for name, values in trained.items():
        for label, row in ((name, values), ("  random weights", control[name])):
            first = f"{frequent[name]:>14.1f}" if label == name else f"{'':>14}"
            print(f"{label:<16}{first}  {'  '.join(f'{value:5.1f}' for value in row)}")
    print(f"\n{'senses: vectors':<24}{'accuracy':>9}")
    for name, value in named.items():
        print(f"{name:<24}{value:>9.1f}")
    print(
        f"{len(train.texts):,} and {len(test.texts):,} descriptions; {len(occurrences):,} occurrences of "
        f"{len({occurrence.lemma for occurrence in occurrences}):,} words; dragoman {__version__}, scikit-learn "
        f"{version('scikit-learn')}, Python {platform.python_version()}"
    )
    if options.out is not None:
        draw(options.out, trained, control, named)
    best = max(value for name, value in named.items() if name.startswith("layer"))
    print(
        json.dumps(
            {
                "ratio": best / named["static, word"],
                "senses": named,
                "probes": trained,
                "random_weights": control,
                "most_frequent": frequent,
            }
        )
    )


if __name__ == "__main__":
    main()
