"""Measure training on one GPU: tokens per second, share of the peak matrix rate, and memory, next to MarianMTModel.

    python benchmarks/training_gpu.py corpora/home-assistant/en-de/train.tsv --shapes base big

The shapes are those of the paper with 37,000 subwords, in bf16, with batches of at most 25,000 tokens on each side,
padding included (the paper's have about 25,000 source and 25,000 target tokens). Sentences are pairs of the corpus,
joined until they have the lengths of WMT (27 subwords on average). Both systems train on the same batches, take turns
in every round, and count real tokens only. The peak matrix rate is that of a product of two large bf16 matrices,
measured in the same run. The last line is JSON and begins with the ratio to MarianMTModel.

Without a GPU, `--device cpu --shapes tiny --batch-tokens 2000 --subwords 2000` runs the script in a short form.
"""

import argparse
import json
import platform
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import islice
from typing import Any

import numpy as np
import peers
import torch
import transformers
from torch import nn

from dragoman import __version__
from dragoman.data.batching import Batch, BatchingConfig, Cursor, batches, collate
from dragoman.data.readers import Pair, parse_corpus, read_pairs
from dragoman.models.seq2seq import Seq2Seq
from dragoman.text.tokenizer import TokenizerConfig, train_tokenizer
from dragoman.training.compiling import compile_layers
from dragoman.training.prefetch import on_device

MEAN_SUBWORDS = 27
# Updates of the paper's runs (section 5.2), each of 25,000 + 25,000 tokens.
PAPER_UPDATES = {"base": 100_000, "big": 300_000}
PAPER_TOKENS = 50_000


def long_pairs(corpora: list[str], subwords: int) -> list[tuple[list[int], list[int]]]:
    """Return pairs of the corpus as ids, joined until their mean length is that of WMT."""
    pairs = [pair for corpus in corpora for pair in read_pairs(parse_corpus(corpus))]
    tokenizer = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=subwords))
    mean = statistics.mean(map(len, tokenizer.encode_target([pair.target for pair in pairs])))
    generator = random.Random(1)
    joined = []
    for _ in pairs:
        count = max(1, round(generator.gammavariate(2, MEAN_SUBWORDS / mean / 2)))
        drawn = [generator.choice(pairs) for _ in range(count)]
        joined.append(Pair(" ".join(pair.source for pair in drawn), " ".join(pair.target for pair in drawn)))
    sources = tokenizer.encode_source([pair.source for pair in joined])
    targets = tokenizer.encode_target([pair.target for pair in joined])
    return [(s, t) for s, t in zip(sources, targets, strict=True) if max(len(s), len(t)) <= 128]


def stream(pairs: list[tuple[list[int], list[int]]], tokens: int) -> Iterator[tuple[Batch, Cursor]]:
    lengths = np.array([(len(s), len(t)) for s, t in pairs])
    for cursor, rows in batches(lengths[:, 0], lengths[:, 1], BatchingConfig(batch_tokens=tokens), seed=1):
        yield collate([pairs[row][0] for row in rows], [pairs[row][1] for row in rows]), cursor


def flops(model: nn.Module, output: nn.Linear, source: int, target: int) -> float:
    """Return the FLOPs of the products with weights, forward and backward: 6 for each weight and token."""
    encoder = sum(p.numel() for n, p in model.named_parameters() if ".encoder." in f".{n}" and p.ndim == 2)
    decoder = sum(p.numel() for n, p in model.named_parameters() if ".decoder." in f".{n}" and p.ndim == 2)
    # An approximation: the decoder's keys and values of the source are computed for source tokens.
    return 6.0 * (encoder * source + (decoder + output.weight.numel()) * target)


def peak_matrix_rate(device: torch.device, size: int) -> float:
    """Return the FLOP/s of a product of two large bf16 matrices, the best of ten measurements."""
    a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
    best = 0.0
    for _ in range(10):
        wait(device)
        start = time.perf_counter()
        for _ in range(10):
            a @ a
        wait(device)
        best = max(best, 10 * 2 * size**3 / (time.perf_counter() - start))
    return best


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def build_update(name: str, shape: peers.Shape, device: torch.device, *, compiled: bool) -> Callable[[Batch], None]:
    """Return a function that trains a new model of the system on one batch."""
    torch.manual_seed(1)
    model, loss = peers.SYSTEMS[name](shape)
    model.to(device).train()
    if compiled and isinstance(model, Seq2Seq):
        compile_layers(model)
    elif compiled:
        model.compile(dynamic=True)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def update(batch: Batch) -> None:
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            value = loss(batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def measure(name: str, arguments: argparse.Namespace, pairs: list[tuple[list[int], list[int]]]) -> dict[str, Any]:
    """Measure both systems on one shape, in turns."""
    device = torch.device(arguments.device)
    shape = peers.shape_of(name, arguments.subwords)
    model, _ = peers.dragoman(shape)
    updates = {
        (system, "compiled" if compiled else "plain"): build_update(system, shape, device, compiled=compiled)
        for system in ("Dragoman", "MarianMTModel")
        for compiled in ((True, False) if arguments.compile else (False,))
    }
    rates: dict[tuple[str, str], list[tuple[float, float, float]]] = {key: [] for key in updates}
    peak = dict.fromkeys(updates, 0.0)
    with closing(on_device(stream(pairs, arguments.batch_tokens), device)) as placed:
        for number in range(arguments.rounds + 1):
            round_batches = [batch for batch, _ in islice(placed, arguments.steps)]
            source = sum(int(batch.source_mask.sum()) for batch in round_batches)
            target = sum(batch.target_tokens for batch in round_batches)
            for key, update in updates.items():
                if device.type == "cuda":
                    torch.cuda.reset_peak_memory_stats()
                wait(device)
                start = time.perf_counter()
                for batch in round_batches:
                    update(batch)
                wait(device)
                seconds = time.perf_counter() - start
                if device.type == "cuda":
                    peak[key] = torch.cuda.max_memory_allocated() / 2**30
                if number > 0:  # the first round is a warm-up, which includes compiling
                    done = flops(model, model.output, source, target)  # type: ignore[arg-type]
                    rates[key].append(((source + target) / seconds, target / seconds, done / seconds))
    return {"rates": rates, "peak": peak}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+", help="training corpora")
    parser.add_argument("--shapes", nargs="+", default=["base", "big"], help="presets that give the shapes")
    parser.add_argument("--subwords", type=int, default=37_000, help="size of the vocabulary")
    parser.add_argument("--batch-tokens", type=int, default=25_000, help="size of a batch in padded tokens")
    parser.add_argument("--steps", type=int, default=20, help="updates of each system in a round")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="measure without compiling only")
    arguments = parser.parse_args()

    device = torch.device(arguments.device)
    pairs = long_pairs(arguments.corpora, arguments.subwords)
    peak_rate = peak_matrix_rate(device, 8192 if device.type == "cuda" else 1024)
    where = torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "CPU"
    print(
        f"{where}, peak matrix rate {peak_rate / 1e12:.1f} TFLOP/s in bf16\n"
        f"dragoman {__version__}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}, Python {platform.python_version()}\n"
        f"batches of {arguments.batch_tokens:,} tokens, {arguments.subwords:,} subwords"
    )
    print(
        f"{'shape':<7}{'system':<16}{'':<10}{'src+tgt/s':>11}{'lowest':>11}{'highest':>11}{'target/s':>11}"
        f"{'of peak':>11}{'peak GiB':>9}"
    )
    report: dict[str, Any] = {}
    for name in arguments.shapes:
        measured = measure(name, arguments, pairs)
        best: dict[str, float] = {}
        for key, rounds in measured["rates"].items():
            both, target, done = (statistics.median(values) for values in zip(*rounds, strict=True))
            best[key[0]] = max(best.get(key[0], 0.0), both)
            totals = [total for total, *_ in rounds]
            print(
                f"{name:<7}{key[0]:<16}{key[1]:<10}{both:>11,.0f}{min(totals):>11,.0f}{max(totals):>11,.0f}"
                f"{target:>11,.0f}{done / peak_rate:>11.0%}{measured['peak'][key]:>9.1f}"
            )
        report[name] = {
            "ratio_to_peer": round(best["Dragoman"] / best["MarianMTModel"], 2),
            "source_and_target_tokens_per_second": {key: round(value) for key, value in best.items()},
        }
        if name in PAPER_UPDATES:
            hours = PAPER_UPDATES[name] * PAPER_TOKENS / best["Dragoman"] / 3600
            report[name]["hours_for_the_papers_run"] = round(hours, 2)
            print(
                f"{name}: {PAPER_UPDATES[name]:,} updates, as in the paper, would take {hours:.1f} hours at this rate"
            )
    ratio = min(shape["ratio_to_peer"] for shape in report.values())
    print(json.dumps({"ratio_to_peer": ratio, "device": where, **report}))


if __name__ == "__main__":
    main()
