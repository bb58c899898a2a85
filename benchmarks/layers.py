"""Measure the time of one layer, forward and backward, by sequence length, and the memory of causal attention.

    python benchmarks/layers.py

This measures table 1 of "Attention Is All You Need": a recurrent layer needs n sequential operations, a convolution and
self-attention need one. The batch has one sequence, so that only the layer itself can be computed in parallel. The
layers take turns in every round; torch.nn.MultiheadAttention is measured for comparison. Memory is measured in a
separate process for each length, for the fused kernel and for the formula written out. The last line is JSON and begins
with the ratio of the LSTM's time to that of self-attention at length 128, which is longer than most sentences.
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
# Exponents are fitted from this length on; at shorter lengths, the overhead of calls dominates.
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

    return {
        "recurrent": lambda x: lstm(x)[0],
        "convolutional": lambda x: convolution(
            x, Windows(Padded(torch.ones(x.shape[:2], dtype=torch.bool)), 3, causal=True)
        ),
        "self-attention": lambda x: attention(x, x, CAUSAL_MASK),
        "torch's self-attention": torch_attention,
    }


def seconds(layer: Callable[[Tensor], Tensor], length: int, d_model: int, minimum: float) -> float:
    """Return the mean time of a forward and backward pass, measured over at least `minimum` seconds."""
    x = torch.randn(1, length, d_model, requires_grad=True)
    passes, start = 0, time.perf_counter()
    while True:
        layer(x).sum().backward()
        passes += 1
        if (elapsed := time.perf_counter() - start) > minimum:
            return elapsed / passes


def exponent(lengths: Sequence[int], values: Sequence[float]) -> float:
    """Return p of value = c · length^p, fitted to the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def attention_memory(kernel: str, length: int, heads: int, d_k: int, results: "multiprocessing.Queue[float]") -> None:
    """Put into `results` the megabytes that causal attention takes, forward and backward, beyond its input."""
    query, key, value = (torch.randn(1, heads, length, d_k, requires_grad=True) for _ in range(3))
    # Creates threads, kernels and their buffers before the measurement.
    short = query[:, :, :256]
    scaled_dot_product_attention(short, short, short, CAUSAL_MASK).sum().backward()
    before = peak_memory()
    if kernel == "fused":
        output = scaled_dot_product_attention(query, key, value, CAUSAL_MASK)
    else:
        output, _ = naive_attention(query, key, value, CAUSAL_MASK)
    output.sum().backward()
    results.put((peak_memory() - before) / 2**20)


def memory(heads: int, d_k: int) -> dict[str, list[float]]:
    spawn = multiprocessing.get_context("spawn")
    by_kernel: dict[str, list[float]] = {"fused": [], "naive": []}
    for kernel, megabytes in by_kernel.items():
        for length in MEMORY_LENGTHS:
            results: multiprocessing.Queue[float] = spawn.Queue()
            process = spawn.Process(target=attention_memory, args=(kernel, length, heads, d_k, results))
            process.start()
            megabytes.append(results.get())
            process.join()
    return by_kernel


def draw(medians: dict[str, list[float]], megabytes: dict[str, list[float]], path: Path) -> None:
    """Draw times and memory by length, and write the figure to `path`."""
    figure = Figure(figsize=(11, 4.2), dpi=150, layout="constrained")
    times, sizes = figure.subplots(1, 2)
    for name, values in medians.items():
        power = exponent(*long_part(values))
        style = "--" if name.startswith("torch") else "-"
        times.loglog(
            LENGTHS,
            [1000 * value for value in values],
            color=COLOURS[name],
            linestyle=style,
            marker="o",
            markersize=4,
            label=f"{name}: n^{power:.1f}, {SEQUENTIAL[name]} sequential",
        )
    times.set(title="One layer, forward and backward", xlabel="sequence length n", ylabel="milliseconds")
    for (name, values), colour in zip(megabytes.items(), ("#0072B2", "#000000"), strict=True):
        power = exponent(MEMORY_LENGTHS, values)
        sizes.loglog(MEMORY_LENGTHS, values, color=colour, marker="o", markersize=4, label=f"{name}: n^{power:.1f}")
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
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.getvalue())


def long_part(values: Sequence[float]) -> tuple[list[int], list[float]]:
    """Return the lengths from LONG on and their values."""
    first = LENGTHS.index(LONG)
    return LENGTHS[first:], list(values[first:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d-model", type=int, default=256, help="width of the layer")
    parser.add_argument("--heads", type=int, default=4, help="attention heads")
    parser.add_argument("--rounds", type=int, default=5, help="rounds; the first is a warm-up and not counted")
    parser.add_argument("--least", type=float, default=0.2, help="minimum seconds for each measurement")
    parser.add_argument("--picture", type=Path, default=Path("layers.png"), help="where to write the figure")
    arguments = parser.parse_args()

    tune_cpu()
    torch.manual_seed(1)
    layers = build(arguments.d_model, arguments.heads)
    measured: dict[str, list[list[float]]] = {name: [[] for _ in LENGTHS] for name in layers}
    for number in range(arguments.rounds):
        for index, length in enumerate(LENGTHS):
            for name, layer in layers.items():
                duration = seconds(layer, length, arguments.d_model, arguments.least)
                if number > 0:
                    measured[name][index].append(duration)
    medians = {name: [statistics.median(durations) for durations in rounds] for name, rounds in measured.items()}
    megabytes = memory(arguments.heads, arguments.d_model // arguments.heads)
    draw(medians, megabytes, arguments.picture)

    print(
        f"d_model {arguments.d_model}, {arguments.heads} heads, one sequence, fp32; dragoman {__version__}, torch "
        f"{torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads; milliseconds, "
        "median (lowest to highest)"
    )
    print(f"{'n':>6}" + "".join(f"{name:>30}" for name in layers))
    for index, length in enumerate(LENGTHS):
        cells = []
        for name in layers:
            milliseconds = [1000 * duration for duration in measured[name][index]]
            middle, lowest, highest = statistics.median(milliseconds), min(milliseconds), max(milliseconds)
            cells.append(f"{middle:.2f} ({lowest:.2f} to {highest:.2f})")
        print(f"{length:>6}" + "".join(f"{cell:>30}" for cell in cells))
    powers = {name: exponent(*long_part(values)) for name, values in medians.items()}
    print(f"{'n^':>6}" + "".join(f"{power:>30.2f}" for power in powers.values()) + f"   from length {LONG} on")
    print(f"{'steps':>6}" + "".join(f"{SEQUENTIAL[name]:>30}" for name in layers) + "   sequential")
    print("\nmemory of causal attention, MB beyond its input")
    for kernel, values in megabytes.items():
        sizes = "".join(f"{length:>8}: {size:8.1f}" for length, size in zip(MEMORY_LENGTHS, values, strict=True))
        print(f"{kernel:>8}{sizes}   n^{exponent(MEMORY_LENGTHS, values):.2f}")
    index = LENGTHS.index(COMPARED_AT)
    print(
        json.dumps(
            {
                "ratio": medians["recurrent"][index] / medians["self-attention"][index],
                "milliseconds": {name: [1000 * value for value in values] for name, values in medians.items()},
                "lengths": LENGTHS,
                "exponents": powers,
                "memory_megabytes": megabytes,
                "memory_exponents": {kernel: exponent(MEMORY_LENGTHS, values) for kernel, values in megabytes.items()},
            }
        )
    )


if __name__ == "__main__":
    main()
