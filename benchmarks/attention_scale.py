"""Show why attention divides the products of queries and keys by √d_k: their variance, the softmax, and two trainings.

    python benchmarks/attention_scale.py

First, for queries and keys whose elements are independent with mean 0 and variance 1 (footnote 4 of "Attention Is All
You Need"): the variance of q·k with its 95 % interval, the entropy of the softmax over KEYS keys, and the norm of the
gradient of a random linear function of the weights with respect to the logits, with 1/√d_k and without. Then the same
Transformer with one head is trained to reverse digits with attention_scale = "sqrt" and "none", for each seed with the
same pairs in the same order. The last line is JSON and begins with the ratio of the validation loss without the scale
to that with it, after the same updates.
"""

import argparse
import io
import json
import math
import os
import platform
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from torch import Tensor

from dragoman import __version__
from dragoman.corpora.algorithmic import fetch
from dragoman.data.readers import parse_corpus, read_pairs
from dragoman.device import tune_cpu
from dragoman.run.train import train
from dragoman.training.events import read_events

WIDTHS = [4, 8, 16, 32, 64, 128, 256, 512]
KEYS = 64
# Pairs of a query and a key for one variance, in chunks that fit into memory; queries for one entropy and gradient.
PAIRS, CHUNK, QUERIES = 400_000, 20_000, 2_000
SCALES = {"sqrt": "1/√d_k", "none": "no scale"}
COLOURS = {"sqrt": "#0072B2", "none": "#D55E00"}
# The largest number of digits of a pair, and the number of pairs to validate on.
LONGEST, VALIDATION = 20, 200


@dataclass(frozen=True)
class Spread:
    """Median of repeated measurements, with the lowest and the highest."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    def __str__(self) -> str:
        return f"{self.median:.3g} ({min(self.values):.3g} to {max(self.values):.3g})"


@dataclass(frozen=True)
class Product:
    """Sample variance of q·k, and half of the width of its 95 % interval."""

    d_k: int
    variance: float
    margin: float

    @property
    def agrees(self) -> bool:
        return abs(self.variance - self.d_k) <= self.margin


@dataclass(frozen=True)
class Run:
    """A training: validation loss by update, share of outputs that are right at the end, and seconds."""

    losses: dict[int, float]
    exact: float
    seconds: float

    @property
    def last(self) -> float:
        return self.losses[max(self.losses)]


def product_variance(d_k: int) -> Product:
    """Return the variance of q·k; the interval of a sample variance s² has the standard error √((m₄ - s⁴)/n)."""
    chunks = [(torch.randn(CHUNK, d_k) * torch.randn(CHUNK, d_k)).sum(dim=1).double() for _ in range(PAIRS // CHUNK)]
    products = torch.cat(chunks)
    centred = products - products.mean()
    variance, fourth = float(centred.square().mean()), float(centred.pow(4).mean())
    return Product(d_k, variance, 1.96 * math.sqrt((fourth - variance**2) / len(products)))


def softmax_measurements(d_k: int, scale: float) -> tuple[float, float]:
    """Return the mean entropy in nats of softmax(scale · qKᵀ), and the median norm of a gradient through it."""
    query, key = torch.randn(QUERIES, 1, d_k), torch.randn(QUERIES, KEYS, d_k)
    # [N, 1, K] x [N, K, S] -> [N, S]
    logits = (scale * (query @ key.transpose(1, 2))).squeeze(1).requires_grad_()
    weights: Tensor = logits.softmax(dim=-1)
    entropy = -(weights * weights.clamp_min(1e-38).log()).sum(dim=-1)
    (weights * torch.randn_like(weights)).sum().backward()
    assert logits.grad is not None
    return float(entropy.detach().mean()), float(logits.grad.norm(dim=-1).median())


def write_pairs(folder: Path) -> tuple[Path, Path]:
    """Write the short pairs of the corpus of digits to reverse; return the files for training and validation."""
    files = fetch("reverse", folder, 20_000)
    paths = []
    for path, most in ((files.train, None), (files.valid, VALIDATION)):
        pairs = read_pairs(parse_corpus(str(path)))
        short = [pair for pair in pairs if len(pair.source.split()) <= LONGEST]
        paths.append(folder / path.name)
        paths[-1].write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in short[:most]), encoding="utf-8")
    return paths[0], paths[1]


def trained(scale: str, seed: int, updates: int, d_k: int, corpora: tuple[Path, Path]) -> Run:
    """Train a model and return its losses."""
    settings: dict[str, Any] = {
        "preset": "tiny",
        "model": {"d_model": d_k, "heads": 1, "d_ff": 256, "dropout": 0.0, "attention_scale": scale},
        "cleaning": {"copied_source": False, "duplicates": False},
        "tokenizer": {"kind": "word"},
        "batching": {"batch_tokens": 2048},
        "schedule": {"kind": "linear", "warmup": 0.05, "peak_learning_rate": 0.001},
        "training": {
            "steps": updates,
            "validations": 5,
            "label_smoothing": 0.0,
            "best_by": "loss",
            "precision": "fp32",
            "seed": seed,
        },
    }
    with tempfile.TemporaryDirectory() as folder, Path(os.devnull).open("w") as nothing:
        out = Path(folder) / "model"
        result = train(
            [str(corpora[0])], out, validation=str(corpora[1]), settings=settings, console=Console(file=nothing)
        )
        events = [event for event in read_events(out / "run" / "log.jsonl") if event["event"] == "validation"]
    losses = {int(str(event["step"])): float(str(event["loss"])) for event in events}
    return Run(losses, result.best.metrics["exact_match"], result.seconds)


def draw(
    products: Sequence[Product],
    entropies: dict[str, list[Spread]],
    gradients: dict[str, list[Spread]],
    runs: dict[str, list[Run]],
    path: Path,
) -> None:
    """Draw the four measurements, and write the figure to `path`."""
    figure = Figure(figsize=(10, 7.4), dpi=130, layout="constrained")
    (variance, entropy), (gradient, training) = figure.subplots(2, 2)
    variance.loglog(WIDTHS, WIDTHS, color="#888888", label="d_k", zorder=1)
    variance.errorbar(
        WIDTHS,
        [product.variance for product in products],
        yerr=[product.margin for product in products],
        fmt="o",
        color="#000000",
        markersize=4,
        label="sample, 95 % interval",
    )
    variance.set(title="Variance of q·k", ylabel="variance")
    variance.set_yticks(WIDTHS, [str(width) for width in WIDTHS])
    for axes, measured in ((entropy, entropies), (gradient, gradients)):
        for scale, spreads in measured.items():
            axes.plot(
                WIDTHS,
                [spread.median for spread in spreads],
                "o-",
                color=COLOURS[scale],
                markersize=4,
                label=SCALES[scale],
            )
        axes.set_xscale("log")
    entropy.axhline(math.log(KEYS), color="#888888", linewidth=0.8, linestyle="--", label=f"uniform, ln {KEYS}")
    entropy.set(title=f"Entropy of the softmax over {KEYS} keys", ylabel="nats")
    entropy.set_ylim(bottom=0)
    gradient.set_yscale("log")
    draw_training(training, runs)
    gradient.set(title="Gradient through the softmax, median norm", ylabel="norm")
    gradient.yaxis.set_major_formatter("{x:g}")
    for axes in (variance, entropy, gradient):
        axes.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
        axes.minorticks_off()
        axes.set_xlabel("d_k")
    for axes in (variance, entropy, gradient, training):
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.getvalue())


def draw_training(axes: Axes, runs: dict[str, list[Run]]) -> None:
    """Draw the validation loss of every seed."""
    for scale, repeats in runs.items():
        for number, run in enumerate(repeats):
            label = SCALES[scale] if number == 0 else None
            axes.plot(list(run.losses), list(run.losses.values()), "-", color=COLOURS[scale], label=label)
    axes.set(title="Reversing digits: validation loss of each seed", xlabel="update", ylabel="nats per token")
    axes.set_ylim(bottom=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="repetitions of entropy and gradient")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind")
    parser.add_argument("--updates", type=int, default=400, help="updates of a training")
    parser.add_argument("--d-k", type=int, default=128, help="d_k, and d_model, of the trained model")
    parser.add_argument("--picture", type=Path, default=Path("attention-scale.png"), help="where to write the figure")
    arguments = parser.parse_args()

    tune_cpu()
    torch.manual_seed(1)
    products = [product_variance(d_k) for d_k in WIDTHS]
    entropies: dict[str, list[Spread]] = {scale: [] for scale in SCALES}
    gradients: dict[str, list[Spread]] = {scale: [] for scale in SCALES}
    for d_k in WIDTHS:
        for scale, factor in (("sqrt", d_k**-0.5), ("none", 1.0)):
            measured = [softmax_measurements(d_k, factor) for _ in range(arguments.repeats)]
            entropies[scale].append(Spread(tuple(entropy for entropy, _ in measured)))
            gradients[scale].append(Spread(tuple(norm for _, norm in measured)))
    runs: dict[str, list[Run]] = {scale: [] for scale in SCALES}
    with tempfile.TemporaryDirectory() as folder:
        corpora = write_pairs(Path(folder))
        for seed in range(1, arguments.seeds + 1):
            for scale in SCALES:
                runs[scale].append(trained(scale, seed, arguments.updates, arguments.d_k, corpora))
    draw(products, entropies, gradients, runs, arguments.picture)

    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{torch.get_num_threads()} threads; median (lowest to highest) of {arguments.repeats} repetitions"
    )
    print(f"{'':>5}{'variance of q·k':>24}  {'d_k':<7}" + f"{'entropy in nats':>60}{'norm of the gradient':>60}")
    columns = "".join(f"{name:>30}" for _ in range(2) for name in SCALES.values())
    print(f"{'d_k':>5}{'95 % interval':>24}  {'inside':<7}" + columns)
    for index, product in enumerate(products):
        cells = [measured[scale][index] for measured in (entropies, gradients) for scale in SCALES]
        inside = "yes" if product.agrees else "no"
        print(
            f"{product.d_k:>5}{product.variance:>13.3f} ± {product.margin:<8.3f}  {inside:<7}"
            + "".join(f"{cell!s:>30}" for cell in cells)
        )
    print(
        f"\nreversing up to {LONGEST} digits: d_model {arguments.d_k}, one head, 2 + 2 layers, {arguments.updates} "
        f"updates, {arguments.seeds} seeds"
    )
    losses = {scale: Spread(tuple(run.last for run in repeats)) for scale, repeats in runs.items()}
    for scale, repeats in runs.items():
        exact, seconds = (
            Spread(tuple(values)) for values in zip(*((run.exact, run.seconds) for run in repeats), strict=True)
        )
        print(f"{SCALES[scale]:>10}   loss {losses[scale]}   outputs right, % {exact}   seconds {seconds}")
    print(
        json.dumps(
            {
                "ratio": losses["none"].median / losses["sqrt"].median,
                "losses": {scale: [run.losses for run in repeats] for scale, repeats in runs.items()},
                "exact": {scale: [run.exact for run in repeats] for scale, repeats in runs.items()},
                "d_k": WIDTHS,
                "variance": [[product.variance, product.margin] for product in products],
                "entropy": {scale: [spread.median for spread in spreads] for scale, spreads in entropies.items()},
                "gradient": {scale: [spread.median for spread in spreads] for scale, spreads in gradients.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
