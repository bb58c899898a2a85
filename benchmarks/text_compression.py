"""Compare a language model with compressors that have seen the same training text: bits per character of the rest.

    python benchmarks/text_compression.py tinyshakespeare/input.txt --model models/shakespeare
    python benchmarks/text_compression.py tinyshakespeare/input.txt --minutes 3

The last tenth of the text is predicted, given the rest. `xz -9e`, `bzip2 -9` and PPMd (pyppmd, variants H and I) adapt
to what they have read, but their interfaces accept no preset dictionary; therefore the cost of the last part is the
compressed size of the whole text minus that of the training text alone. For PPMd, the code of the last part is exactly
this long. bzip2 sorts blocks of 900,000 bytes one by one, and hardly sees the training text from the block of the last
part; so it is also given only as much training text as fits into the same block. For PPMd, several orders are tried.
Every compressor is listed with its best result.

The model is that of --model, or is trained on the training text for --minutes, as by `dragoman train --task language`
with the settings of --set. Its cost is the sum of -log2 p of the last part, which an arithmetic coder exceeds by at
most two bits, with a context carried from window to window (--stride). Neither the training text nor the size of the
model is counted. Training selects the best weights by the loss on the last part itself; with --model, that depends on
how the model was trained. The last line is JSON and begins with the ratio of the bits of the best compressor to those
of the model.
"""

import argparse
import bz2
import json
import lzma
import math
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyppmd

from dragoman import Generator, __version__
from dragoman.run.train import train
from dragoman.settings import apply_overrides

BZIP2_BLOCK = 900_000
# Bytes of a block that bzip2 may need for runs of equal bytes.
MARGIN = 1000
ORDERS = (4, 5, 6, 8, 12, 16)
PPMD_MEMORY = 1 << 28

Compressor = Callable[[bytes], int]


def ppmd(variant: str, order: int) -> Compressor:
    encoder_of = {"H": pyppmd.Ppmd7Encoder, "I": pyppmd.Ppmd8Encoder}[variant]

    def compressed(data: bytes) -> int:
        encoder = encoder_of(order, PPMD_MEMORY)
        return len(encoder.encode(data)) + len(encoder.flush())

    return compressed


def bzip2(data: bytes) -> int:
    return len(bz2.compress(data, 9))


def compressed_sizes(training: bytes, rest: bytes) -> Iterator[tuple[str, str, int]]:
    """Yield compressor, how it was given the training text, and the number of bytes of the rest."""

    def further(compressor: Compressor, before: bytes) -> int:
        return compressor(before + rest) - compressor(before)

    yield "xz -9e", "", further(lambda data: len(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME)), training)
    yield "bzip2 -9", "all training text", further(bzip2, training)
    if (in_block := BZIP2_BLOCK - MARGIN - len(rest)) > 0:
        yield "bzip2 -9", f"last {in_block:,} bytes of the training text", further(bzip2, training[-in_block:])
    for variant in "HI":
        for order in ORDERS:
            yield f"PPMd var. {variant}", f"order {order}", further(ppmd(variant, order), training)


@contextmanager
def model_directory(options: argparse.Namespace, training: str, rest: str) -> Iterator[Path]:
    """Yield --model, or the directory of a model that is trained for --minutes."""
    if options.model is not None:
        yield options.model
        return
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, text in (("training", training), ("rest", rest)):
            (folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")
        settings: dict[str, Any] = {"task": "language", "training": {"minutes": options.minutes}}
        train(
            [str(folder / "training.txt")],
            folder / "model",
            validation=str(folder / "rest.txt"),
            settings=apply_overrides(settings, options.set),
        )
        yield folder / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path, help="text in UTF-8")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--model", type=Path, help="model directory of a language model")
    source.add_argument("--minutes", type=float, help="train a model for this time")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the training")
    parser.add_argument("--share", type=float, default=0.1, help="share of the text that is predicted")
    parser.add_argument("--stride", type=int, help="tokens scored in each window; half of the context by default")
    parser.add_argument("--engine", default="auto", help="engine that evaluates the model")
    options = parser.parse_args()
    text = options.text.read_bytes().decode()
    cut = int(len(text) * (1 - options.share))
    training, rest = text[:cut], text[cut:]

    best: dict[str, tuple[float, str]] = {}
    for name, how, size in compressed_sizes(training.encode(), rest.encode()):
        bits = 8 * size / len(rest)
        best[name] = min(best.get(name, (math.inf, "")), (bits, how))
    with model_directory(options, training, rest) as directory:
        evaluation = Generator.load(directory, engine=options.engine).evaluate(rest, stride=options.stride)
    context = "its state" if evaluation.context is None else f"context {evaluation.context}, stride {evaluation.stride}"
    best["Dragoman"] = (evaluation.bits_per_character, f"{context}; {evaluation.engine}")

    print(f"{'system':<14}{'bits per character':>19}{'bytes':>10}  remarks")
    for name, (bits, how) in sorted(best.items(), key=lambda item: -item[1][0]):
        print(f"{name:<14}{bits:>19.3f}{bits * len(rest) / 8:>10,.0f}  {how}")
    print(
        f"{len(training):,} characters given, {len(rest):,} predicted; {options.text.name}; dragoman {__version__}, "
        f"pyppmd {version('pyppmd')}, Python {platform.python_version()}"
    )
    ours = best.pop("Dragoman")[0]
    print(
        json.dumps(
            {
                "ratio": min(bits for bits, _ in best.values()) / ours,
                "bits_per_character": {"Dragoman": ours, **{name: bits for name, (bits, _) in best.items()}},
                "characters": len(rest),
            }
        )
    )


if __name__ == "__main__":
    main()
