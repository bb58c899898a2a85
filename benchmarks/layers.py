"""Time of one layer, forward and backward, against the length of the sequence; and memory of causal attention.

    python benchmarks/layers.py

Table 1 of "Attention Is All You Need", measured: a recurrent layer needs n operations one after another, a convolution
and self-attention one. One sequence, so that nothing but the layer can be parallel; the layers take turns in every
round. torch.nn.MultiheadAttention stands beside ours. Memory is measured in a process of its own for each length: the
fused kernel against the formula written out. The last line is JSON, the ratio first: the LSTM's time over
self-attention's at a length of 128, longer than most sentences.
"""

import argparse
import io
import json
import multiprocessing
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from dragoman import __version__
from dragoman.attention import CAUSAL_MASK, MultiHeadAttention, naive_attention, scaled_dot_product_attention
from dragoman.device import peak_memory, tune_cpu
from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.packing import Padded

LENGTHS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
MEMORY_LENGTHS = [2048, 4096, 8192]
# Exponents are fitted from here on: below, calls cost more than what they compute.
LONG = 512
COMPARED_AT = 128
SEQUENTIAL = {"recurrent": "n", "convolutional": "1", "self-attention": "1", "torch's self-attention": "1"}
COLOURS = {"recurrent": "#D55E00", "convolutional": "#009E73", "self-attention": "#0072B2"}
COLOURS["torch's self-attention"] = "#56B4E9"


def build(d_model: int, heads: int) -> dict[str, Callable[[Tensor], Tensor]]:
    lstm = nn.LSTM(d_model, d_model, batch_first=True)
    convolution = GatedConvolution(d_model, 3, dropout=0.0)
    attention = MultiHeadAttention(d_model, heads)
    peer = nn.MultiheadAttention(d_model, heads, bias=False, batch_first=True)

    def torch_attention(x: Tensor) -> Tensor:
        length = x.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        output: Tensor = peer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return output

    def every_place(x: Tensor) -> Padded:
        return Padded(torch.ones(x.shape[:2], dtype=torch.bool))

    return {
        "recurrent": lambda x: lstm(x)[0],
        "convolutional": lambda x: convolution(
            x, Windows(Padded(torch.ones(x.shape[:2], dtype=torch.bool)), 3, causal=True)
        ),
        "self-attention": lambda x: attention(x, x, CAUSAL_MASK),
        "torch's self-attention": torch_attention,
    }


def seconds(layer: Callable[[Tensor], Tensor], length: int, d_model: int, least: float) -> float:
    """Of one pass forward and backward, the mean over as many as fit into `least` seconds."""
    x = torch.randn(1, length, d_model, requires_grad=True)
    passes, began = 0, time.perf_counter()
    while True:
        layer(x).sum().backward()
        passes += 1
        if (elapsed := time.perf_counter() - began) > least:
            return elapsed / passes


def exponent(lengths: Sequence[int], figures: Sequence[float]) -> float:
    """p of figure = c · length^p, fitted to the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(figures), 1)[0])


def attention_memory(kernel: str, length: int, heads: int, d_k: int, answer: "multiprocessing.Queue[float]") -> None:
    """Megabytes that causal attention takes, forward and backward, beyond its input."""
    query, key, value = (torch.randn(1, heads, length, d_k, requires_grad=True) for _ in range(3))
    # Threads, kernels and their buffers are there before it counts.
    short = query[:, :, :256]
    scaled_dot_product_attention(short, short, short, CAUSAL_MASK).sum().backward()
    before = peak_memory()
    if kernel == "fused":
        output = scaled_dot_product_attention(query, key, value, CAUSAL_MASK)
    else:
        output, _ = naive_attention(query, key, value, CAUSAL_MASK)
    output.sum().backward()
    answer.put((peak_memory() - before) / 2**20)


def memory(heads: int, d_k: int) -> dict[str, list[float]]:
    spawn = multiprocessing.get_context("spawn")
    found: dict[str, list[float]] = {"fused": [], "naive": []}
    for kernel, figures in found.items():
        for length in MEMORY_LENGTHS:
            answer: multiprocessing.Queue[float] = spawn.Queue()
            process = spawn.Process(target=attention_memory, args=(kernel, length, heads, d_k, answer))
            process.start()
            figures.append(answer.get())
            process.join()
    return found


def draw(medians: dict[str, list[float]], held: dict[str, list[float]], picture: Path) -> None:
    figure = Figure(figsize=(11, 4.2), dpi=150, layout="constrained")
    times, sizes = figure.subplots(1, 2)
    for name, figures in medians.items():
        power = exponent(*long_part(figures))
        style = "--" if name.startswith("torch") else "-"
        times.loglog(
            LENGTHS,
            [1000 * each for each in figures],
            color=COLOURS[name],
            linestyle=style,
            marker="o",
            markersize=4,
            label=f"{name}: n^{power:.1f}, {SEQUENTIAL[name]} in sequence",
        )
    times.set(title="One layer, forward and backward", xlabel="sequence length n", ylabel="milliseconds")
    for (name, figures), colour in zip(held.items(), ("#0072B2", "#000000"), strict=True):
        power = exponent(MEMORY_LENGTHS, figures)
        sizes.loglog(MEMORY_LENGTHS, figures, color=colour, marker="o", markersize=4, label=f"{name}: n^{power:.1f}")
    sizes.set(title="Memory of causal self-attention", xlabel="sequence length n", ylabel="megabytes")
    for axes in (times, sizes):
        axes.grid(color="#dddddd", linewidth=0.6, which="both")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    times.set_xticks(LENGTHS, [str(length) for length in LENGTHS], minor=False)
    sizes.set_xticks(MEMORY_LENGTHS, [str(length) for length in MEMORY_LENGTHS], minor=False)
    for axes in (times, sizes):
        axes.tick_params(axis="x", which="minor", labelbottom=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    picture.parent.mkdir(parents=True, exist_ok=True)
    picture.write_bytes(png.getvalue())


def long_part(figures: Sequence[float]) -> tuple[list[int], list[float]]:
    first = LENGTHS.index(LONG)
    return LENGTHS[first:], list(figures[first:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d-model", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5, help="the first warms up and is not counted")
    parser.add_argument("--least", type=float, default=0.2, help="seconds for each measurement")
    parser.add_argument("--picture", type=Path, default=Path("layers.png"))
    arguments = parser.parse_args()

    tune_cpu()
    torch.manual_seed(1)
    layers = build(arguments.d_model, arguments.heads)
    measured: dict[str, list[list[float]]] = {name: [[] for _ in LENGTHS] for name in layers}
    for number in range(arguments.rounds):
        for place, length in enumerate(LENGTHS):
            for name, layer in layers.items():
                found = seconds(layer, length, arguments.d_model, arguments.least)
                if number > 0:
                    measured[name][place].append(found)
    medians = {name: [statistics.median(each) for each in figures] for name, figures in measured.items()}
    held = memory(arguments.heads, arguments.d_model // arguments.heads)
    draw(medians, held, arguments.picture)

    print(
        f"d_model {arguments.d_model}, {arguments.heads} heads, one sequence, fp32; dragoman {__version__}, torch "
        f"{torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads; milliseconds, "
        "median (lowest to highest)"
    )
    print(f"{'n':>6}" + "".join(f"{name:>30}" for name in layers))
    for place, length in enumerate(LENGTHS):
        cells = []
        for name in layers:
            some = [1000 * each for each in measured[name][place]]
            cells.append(f"{statistics.median(some):.2f} ({min(some):.2f} to {max(some):.2f})")
        print(f"{length:>6}" + "".join(f"{cell:>30}" for cell in cells))
    powers = {name: exponent(*long_part(figures)) for name, figures in medians.items()}
    print(f"{'n^':>6}" + "".join(f"{power:>30.2f}" for power in powers.values()) + f"   from {LONG} on")
    print(f"{'steps':>6}" + "".join(f"{SEQUENTIAL[name]:>30}" for name in layers) + "   in sequence")
    print("\nmemory of causal attention, MB beyond its input")
    for kernel, figures in held.items():
        sizes = "".join(f"{length:>8}: {size:8.1f}" for length, size in zip(MEMORY_LENGTHS, figures, strict=True))
        print(f"{kernel:>8}{sizes}   n^{exponent(MEMORY_LENGTHS, figures):.2f}")
    place = LENGTHS.index(COMPARED_AT)
    print(
        json.dumps(
            {
                "ratio": medians["recurrent"][place] / medians["self-attention"][place],
                "milliseconds": {name: [1000 * each for each in figures] for name, figures in medians.items()},
                "lengths": LENGTHS,
                "exponents": powers,
                "memory_megabytes": held,
                "memory_exponents": {kernel: exponent(MEMORY_LENGTHS, figures) for kernel, figures in held.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
