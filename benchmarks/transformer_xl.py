"""Measure what the memory of Transformer-XL gains, and what it saves.

    python benchmarks/transformer_xl.py data/tinyshakespeare/input.txt --minutes 6

One model is trained on characters, on the first 90 % of a text; --out keeps it, and a second call continues or measures
it. On the rest of the text, its loss is measured with memories from 0 to 1,024 positions, longer than in training. All
memories are scored on the same characters, after at least 1,024 characters of context in each of several rows; the
interval is a bootstrap over the rows' differences to a memory of the length in training.

Then the speed of evaluation is measured with a context of 128 to 3,800 characters: Transformer-XL reads segment by
segment and keeps the memory; a plain Transformer of the same size computes the whole context anew for every character
(stride 1), as one has to without memory (Dai et al. 2019, section 4.6). The two take turns in every round. The last
line is JSON and begins with the ratio of their speeds at the longest context.
"""

import argparse
import io
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from dragoman import __version__
from dragoman.device import tune_cpu
from dragoman.models.config.language import LanguageConfig
from dragoman.models.config.transformer_xl import TransformerXLConfig
from dragoman.models.description import load_description
from dragoman.models.language import build_language
from dragoman.models.language_model import LanguageModel
from dragoman.models.storage import load_language_model
from dragoman.models.transformer_xl import TransformerXL
from dragoman.run.train import train
from dragoman.text.vocabulary import Vocabulary

MEMORIES = [0, 8, 16, 32, 64, 128, 256, 512, 1024]
ROWS = 16
CONTEXTS = [128, 256, 512, 1024, 2048, 3800]
# Windows of the plain Transformer are computed together, up to this number of tokens.
TOGETHER = 4096
SETTINGS: dict[str, Any] = {
    "task": "language",
    "architecture": "transformer-xl",
    "preset": "nano",
    "tokenizer": {"kind": "character"},
    "model": {"segment": 128, "memory": 128, "context": 512, "dropout": 0.0, "norm_placement": "pre"},
    "data": {"validation_tokens": 40_000},
    "training": {"precision": "fp32", "validations": 6},
    "batching": {"batch_tokens": 2048},
}


def losses(model: TransformerXL, ids: Tensor, memory: int) -> NDArray[np.float64]:
    """Return the mean loss in nats of each row of `ids` [ROWS, T], from position MEMORIES[-1] on."""
    state = model.start(len(ids), memory)
    total, count = torch.zeros(len(ids), dtype=torch.float64), 0
    with torch.inference_mode():
        for start in range(0, ids.shape[1] - 1, model.segment):
            piece = ids[:, start : start + model.segment + 1]
            states, state = model.read(piece[:, :-1], state)
            scored = slice(max(MEMORIES[-1] - start, 0), None)
            logits = model.project(states)[:, scored].transpose(1, 2)
            total += F.cross_entropy(logits, piece[:, 1:][:, scored], reduction="none").sum(dim=1)
            count += logits.shape[2]
    return (total / count).numpy()


def interval(differences: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of the rows' differences, by bootstrap."""
    draws = np.random.default_rng(1).integers(len(differences), size=(10_000, len(differences)))
    low, high = np.percentile(differences[draws].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)


def reading(model: TransformerXL, ids: Tensor, context: int) -> Callable[[], int]:
    """Return a function that evaluates one segment with a full memory, and returns its number of tokens."""
    with torch.inference_mode():
        _, state = model.read(ids[:, :context], model.start(1, context))
    piece = ids[:, context : context + model.segment]

    def evaluate() -> int:
        nonlocal state
        states, state = model.read(piece, state)
        model.project(states)
        return piece.shape[1]

    return evaluate


def sliding(model: LanguageModel, ids: Tensor, context: int) -> Callable[[], int]:
    """Return a function that evaluates some tokens, each from a window of its own, and returns their number."""
    # [1, T] -> [n, context]
    windows = ids[0].unfold(0, context, 1)[: max(1, TOGETHER // context)]

    def evaluate() -> int:
        model.project(model(windows).states[:, -1])
        return len(windows)

    return evaluate


def speed(evaluate: Callable[[], int], minimum: float) -> float:
    """Return tokens per second, measured over at least `minimum` seconds."""
    tokens, start = 0, time.perf_counter()
    with torch.inference_mode():
        while True:
            tokens += evaluate()
            if (elapsed := time.perf_counter() - start) > minimum:
                return tokens / elapsed


def draw(means: list[float], trained: int, speeds: dict[str, list[float]], path: Path) -> None:
    """Draw loss by memory and speed by context, and write the figure to `path`."""
    figure = Figure(figsize=(11, 4.2), dpi=150, layout="constrained")
    loss, rate = figure.subplots(1, 2)
    loss.plot(range(len(MEMORIES)), means, color="#0072B2", marker="o", markersize=4)
    loss.set_xticks(range(len(MEMORIES)), [f"{memory:,}" for memory in MEMORIES])
    loss.axvline(MEMORIES.index(trained), color="#999999", linestyle="--", linewidth=0.8)
    loss.annotate("memory in training", (MEMORIES.index(trained), max(means)), (4, -4), textcoords="offset points")
    loss.set(title="Loss of one Transformer-XL", xlabel="positions in memory", ylabel="nats per character")
    for (name, values), colour in zip(speeds.items(), ("#0072B2", "#D55E00"), strict=True):
        rate.loglog(CONTEXTS, values, color=colour, marker="o", markersize=4, label=name)
    rate.set(title="Speed of evaluation", xlabel="context in characters", ylabel="characters per second")
    rate.set_xticks(CONTEXTS, [f"{context:,}" for context in CONTEXTS], minor=False)
    rate.tick_params(axis="x", which="minor", labelbottom=False)
    rate.legend(frameon=False)
    for axes in (loss, rate):
        axes.grid(color="#dddddd", linewidth=0.6, which="both")
        axes.spines[["top", "right"]].set_visible(False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path, help="a text file")
    parser.add_argument("--minutes", type=float, default=6, help="minutes of training")
    parser.add_argument("--out", type=Path, default=Path("build/transformer-xl"), help="directory of the model")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the speed; one more is a warm-up")
    parser.add_argument("--least", type=float, default=0.3, help="minimum seconds for each measurement")
    parser.add_argument("--picture", type=Path, default=Path("transformer-xl.png"), help="where to write the figure")
    arguments = parser.parse_args()

    tune_cpu()
    text = arguments.text.read_text(encoding="utf-8")
    end = int(0.9 * len(text))
    training = {**SETTINGS["training"], "minutes": arguments.minutes}
    train([str(arguments.text)], arguments.out, settings={**SETTINGS, "training": training})
    model = load_language_model(arguments.out)
    assert isinstance(model, TransformerXL)
    (row,) = Vocabulary.load(arguments.out).encode([text[end:]])
    held_out = torch.tensor(row)

    # [T] -> [ROWS, T']
    ids = held_out[: len(held_out) // ROWS * ROWS].unflatten(0, (ROWS, -1))
    by_memory = {memory: losses(model, ids, memory) for memory in MEMORIES}
    means = [float(by_memory[memory].mean()) for memory in MEMORIES]

    config = load_description(arguments.out).model
    assert isinstance(config, TransformerXLConfig)
    plain = build_language(
        LanguageConfig(
            vocabulary=config.vocabulary,
            layers=config.layers,
            d_model=config.d_model,
            heads=config.heads,
            d_ff=config.d_ff,
        )
    ).eval()
    measured: dict[str, list[list[float]]] = {"Transformer-XL": [], "sliding windows": []}
    for context in CONTEXTS:
        evaluations = {
            "Transformer-XL": reading(model, held_out.unsqueeze(0), context),
            "sliding windows": sliding(plain, held_out.unsqueeze(0), context),
        }
        rounds: dict[str, list[float]] = {name: [] for name in evaluations}
        for number in range(arguments.rounds + 1):
            for name, evaluate in evaluations.items():
                rate = speed(evaluate, arguments.least)
                if number > 0:
                    rounds[name].append(rate)
        for name, rates in rounds.items():
            measured[name].append(rates)
    medians = {name: [statistics.median(rates) for rates in by_context] for name, by_context in measured.items()}
    draw(means, model.memory, medians, arguments.picture)

    scored = ROWS * (ids.shape[1] - 1 - MEMORIES[-1])
    print(
        f"{config.shape()}; {arguments.minutes:g} minutes on {end:,} characters; dragoman {__version__}, torch "
        f"{torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads"
    )
    print(f"\nloss in nats per character, {scored:,} characters; difference to the memory in training, 95 % interval")
    for memory, mean in zip(MEMORIES, means, strict=True):
        low, high = interval(by_memory[memory] - by_memory[model.memory])
        print(f"{memory:>6}  {mean:.4f}  {low:+.4f} to {high:+.4f}")
    print("\ncharacters per second, median (lowest to highest)")
    print(f"{'context':>8}{'Transformer-XL':>34}{'sliding windows':>34}{'ratio':>10}")
    ratios = []
    for index, context in enumerate(CONTEXTS):
        cells = ""
        for by_context in measured.values():
            rates = by_context[index]
            cells += f"{f'{statistics.median(rates):,.1f} ({min(rates):,.1f} to {max(rates):,.1f})':>34}"
        ratios.append(medians["Transformer-XL"][index] / medians["sliding windows"][index])
        print(f"{context:>8,}{cells}{ratios[-1]:>10,.0f}")
    print(
        json.dumps(
            {
                "ratio": ratios[-1],
                "contexts": CONTEXTS,
                "ratios": ratios,
                "characters_per_second": medians,
                "memories": MEMORIES,
                "losses": means,
            }
        )
    )


if __name__ == "__main__":
    main()
