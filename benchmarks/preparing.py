"""Measure the preparation of text, compared with sentencepiece's encoder alone: pairs per second and peak memory.

    python benchmarks/preparing.py corpora/home-assistant/en-de/train.tsv --pairs 300000

"encoder" reads the pairs, encodes both sides, all at once or in blocks, and discards the ids; it is the upper limit for
any preparation of text in these subwords. "prepare" writes the memory-mapped corpus. "train" includes everything before
the first update: reading, cleaning, deduplicating, splitting, writing the text, and "prepare" (the subwords are learned
earlier). Each runs in a separate process, in turns. The last line is JSON and begins with the speed of "prepare" as a
share of the encoder's.
"""

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import sentencepiece
from rich.console import Console

from dragoman import __version__
from dragoman.data.cleaning import CleaningConfig
from dragoman.data.prepared import BLOCK, prepare
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.run.config import DataConfig
from dragoman.run.preparation import read_clean_text, write_clean_text
from dragoman.text.tokenizer import Tokenizer, TokenizerConfig, train_tokenizer

THREADS = os.cpu_count() or 1


def encoder_at_once(text: Path, model: Path, _: Path) -> None:
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(model / "tokenizer.model"))
    pairs = list(read_pairs(parse_corpus(str(text))))
    for side in zip(*pairs, strict=True):
        encoder.encode(list(side), num_threads=THREADS)


def encoder_in_blocks(text: Path, model: Path, _: Path) -> None:
    encoder = sentencepiece.SentencePieceProcessor(model_file=str(model / "tokenizer.model"))
    pairs = iter(read_pairs(parse_corpus(str(text))))
    while block := list(islice(pairs, BLOCK)):
        for side in zip(*block, strict=True):
            encoder.encode(list(side), num_threads=THREADS)


def prepare_alone(text: Path, model: Path, out: Path) -> None:
    pairs = read_pairs(parse_corpus(str(text)))
    prepare(pairs, Tokenizer.load(model), out / "prepared", max_tokens=128, workers=THREADS)


def all_before_training(text: Path, model: Path, out: Path) -> None:
    console = Console(quiet=True)
    clean = write_clean_text([str(text)], None, CleaningConfig(), DataConfig(), out / "text", console)
    pairs = read_clean_text(clean.training)
    prepare(pairs, Tokenizer.load(model), out / "prepared", max_tokens=128, workers=THREADS)


METHODS: dict[str, Callable[[Path, Path, Path], None]] = {
    "encoder, all at once": encoder_at_once,
    "encoder, in blocks": encoder_in_blocks,
    "prepare": prepare_alone,
    "train, before updates": all_before_training,
}


def measure(name: str, text: Path, model: Path, connection: Connection) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as out:
        begin = time.perf_counter()
        METHODS[name](text, model, Path(out))
        seconds = time.perf_counter() - begin
    connection.send((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--pairs", type=int, default=300_000, help="pairs to prepare, made from the corpus")
    parser.add_argument("--vocabulary", type=int, default=8000, help="number of subwords")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each method")
    arguments = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    rates: dict[str, list[float]] = {name: [] for name in METHODS}
    peaks: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        text, model = Path(temporary) / "corpus.tsv", Path(temporary)
        originals = list(read_pairs(parse_corpus(arguments.corpus)))
        with text.open("w", encoding="utf-8") as file:
            for number in range(arguments.pairs):
                pair = originals[number % len(originals)]
                # The numbers make every pair unique, so that none is removed as a duplicate.
                file.write(f"{pair.source} {number}\t{pair.target} {number}\n")
        train_tokenizer(originals, TokenizerConfig(vocabulary_size=arguments.vocabulary)).save(model)
        for _ in range(arguments.rounds):
            for name in METHODS:
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=measure, args=(name, text, model, theirs))
                process.start()
                seconds, peak, before = ours.recv()
                process.join()
                rates[name].append(arguments.pairs / seconds)
                peaks[name] = peak - before
        size = text.stat().st_size / 1e6
    print(
        f"dragoman {__version__}, sentencepiece {sentencepiece.__version__}, Python {platform.python_version()}, "
        f"{THREADS} threads; {arguments.pairs:,} pairs, {size:.0f} MB"
    )
    print(f"{'':<24}{'pairs/s':>10}{'lowest':>10}{'highest':>10}{'memory MB':>11}")
    for name, values in rates.items():
        print(
            f"{name:<24}{statistics.median(values):>10,.0f}{min(values):>10,.0f}{max(values):>10,.0f}"
            f"{peaks[name]:>11,.0f}"
        )
    median = {name: statistics.median(values) for name, values in rates.items()}
    fastest = max(median["encoder, all at once"], median["encoder, in blocks"])
    print(
        json.dumps(
            {
                "share_of_the_encoders_speed": round(median["prepare"] / fastest, 2),
                "all_before_training_share": round(median["train, before updates"] / fastest, 2),
                "pairs_per_second": {name: round(value) for name, value in median.items()},
                "memory_mb": {name: round(value) for name, value in peaks.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
