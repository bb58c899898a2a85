"""Measure the training speed of Dragoman, MarianMTModel and torch.nn.Transformer in target tokens per second.

    python benchmarks/training.py corpora/home-assistant/en-de/train.tsv --shape small

All systems have the same shape, batches, loss (label smoothing 0.1) and optimizer (fused AdamW). Each is measured in
fp32, in bf16 autocast and compiled, and its fastest setting is compared. Each system and setting has a separate
process, and they take turns in every round, on batches that none has seen before. The last line is JSON and begins with
the ratio to the fastest other library ("peer").
"""

import argparse
import json
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import peers
import torch
import transformers

from dragoman import __version__
from dragoman.data.batching import Batch, BatchingConfig, batches, collate
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.device import tune_cpu
from dragoman.text.tokenizer import TokenizerConfig, train_tokenizer

SETTINGS = ("fp32", "bf16", "bf16 compiled")
MAX_TOKENS, RATE, WARMUP = 128, 5e-4, 20


def make_batches(corpora: list[str], vocabulary: int, tokens: int) -> Iterator[Batch]:
    pairs = [pair for corpus in corpora for pair in read_pairs(parse_corpus(corpus))]
    tokenizer = train_tokenizer(pairs, TokenizerConfig(vocabulary_size=vocabulary))
    sources = tokenizer.encode_source([pair.source for pair in pairs])
    targets = tokenizer.encode_target([pair.target for pair in pairs])
    both = [(s, t) for s, t in zip(sources, targets, strict=True) if max(len(s), len(t)) <= MAX_TOKENS]
    lengths = np.array([(len(s), len(t)) for s, t in both])
    for _, rows in batches(lengths[:, 0], lengths[:, 1], BatchingConfig(batch_tokens=tokens), seed=1):
        yield collate([both[row][0] for row in rows], [both[row][1] for row in rows])


def run_system(connection: Connection, name: str, setting: str, shape: peers.Shape) -> None:
    """Train on the batches received, and send the seconds, the mean loss and the peak memory for each round."""
    if name == "Dragoman":
        tune_cpu()
    torch.manual_seed(1)
    model, loss = peers.SYSTEMS[name](shape)
    model.train()
    if setting.endswith("compiled"):
        for module in [model] if name == "MarianMTModel" else model.children():
            module.compile(dynamic=True)
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), fused=True)
    step = 0
    while received := connection.recv():
        losses = []
        start = time.perf_counter()
        for batch in received:
            step += 1
            optimizer.param_groups[0]["lr"] = RATE * min(1, step / WARMUP)
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=setting.startswith("bf16")):
                value = loss(batch)
            value.backward()
            optimizer.step()
            losses.append(float(value.detach()))
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        connection.send((seconds, statistics.mean(losses), peak))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", nargs="+", help="training corpora")
    parser.add_argument("--shape", default="small", help="preset that gives the shape")
    parser.add_argument("--vocabulary", type=int, default=8000, help="number of subwords")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="size of a batch in padded tokens")
    parser.add_argument("--steps", type=int, default=8, help="updates of each system in a round")
    parser.add_argument("--rounds", type=int, default=7, help="rounds; the first two are a warm-up and not counted")
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=SETTINGS, help="settings to measure")
    arguments = parser.parse_args()

    shape = peers.shape_of(arguments.shape, arguments.vocabulary)
    stream = make_batches(arguments.corpora, arguments.vocabulary, arguments.batch_tokens)
    spawn = multiprocessing.get_context("spawn")
    processes: dict[tuple[str, str], Connection] = {}
    for name in peers.SYSTEMS:
        for setting in arguments.settings:
            if name == "Dragoman" and setting.endswith("compiled"):
                continue  # it is not faster compiled on a CPU: docs/training-speed.md
            ours, theirs = spawn.Pipe()
            spawn.Process(target=run_system, args=(theirs, name, setting, shape), daemon=True).start()
            processes[name, setting] = ours
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in processes}
    last: dict[tuple[str, str], tuple[float, float]] = {}
    for number in range(arguments.rounds):
        round_batches = list(islice(stream, arguments.steps))
        for key, connection in list(processes.items()):
            connection.send(round_batches)
            try:
                seconds, *last[key] = connection.recv()
            except EOFError:
                print(f"{' '.join(key)} failed and is omitted", file=sys.stderr)
                del processes[key], rates[key]
                continue
            if number > 1:
                rates[key].append(sum(batch.target_tokens for batch in round_batches) / seconds)
    for connection in processes.values():
        connection.send([])

    print(
        f"{arguments.shape}: {shape}\ndragoman {__version__}, torch {torch.__version__}, transformers "
        f"{transformers.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads"
    )
    print(f"{'system':<22}{'':15}{'tokens/s':>9}{'lowest':>9}{'highest':>9}{'loss':>8}{'peak MB':>9}")
    for key, measured in rates.items():
        print(
            f"{key[0]:<22}{key[1]:<15}{statistics.median(measured):>9,.0f}{min(measured):>9,.0f}"
            f"{max(measured):>9,.0f}{last[key][0]:>8.3f}{last[key][1]:>9,.0f}"
        )
    best = {
        name: max((statistics.median(rates[key]), key[1]) for key in rates if key[0] == name) for name in peers.SYSTEMS
    }
    peer = max((name for name in best if name != "Dragoman"), key=lambda name: best[name])
    print(
        json.dumps(
            {
                "ratio_to_best_peer": round(best["Dragoman"][0] / best[peer][0], 2),
                "best_peer": peer,
                "shape": arguments.shape,
                "target_tokens_per_second": {name: round(rate) for name, (rate, _) in best.items()},
                "best_setting": {name: setting for name, (_, setting) in best.items()},
                "loss_of_last_round": {name: round(last[name, best[name][1]][0], 3) for name in best},
            }
        )
    )


if __name__ == "__main__":
    main()
