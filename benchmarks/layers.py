"""Measure the time of one layer, forward and backward, by sequence length, and time and memory of causal attention.

    python benchmarks/layers.py

The part "layers" measures table 1 of "Attention Is All You Need": a recurrent layer needs n sequential operations, a
convolution and self-attention need one. The batch has one sequence, so that only the layer itself can be computed in
parallel. The layers take turns in every round; torch.nn.MultiheadAttention is measured for comparison.

The other parts measure time and memory of a layer of causal self-attention at longer lengths, each in a separate
process: with the formula written out ("naive"), with torch's fused kernel ("fused"), in blocks ("local") and with
compressed keys and values ("compressed"). `--parts` selects parts; with `--results FILE`, measured parts are added to
the file, and parts that it contains are not measured again.

The last line is JSON and begins with the ratio of the LSTM's time to that of self-attention at length 128, which is
longer than most sentences.
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
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from dragoman import __version__
from dragoman.attention import CAUSAL_MASK, AttentionCore, AttentionMask, MultiHeadAttention, naive_attention
from dragoman.device import peak_memory, tune_cpu
from dragoman.layers.compressed_attention import CompressedAttention
from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.layers.local_attention import LocalAttention
from dragoman.packing import Padded

LENGTHS = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]
# Lengths of the parts that measure attention. The formula written out would need about 13 GB at 16,384, where it is not
# measured.
LONG_LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
LONGEST_NAIVE = 8192
# Exponents are fitted from these lengths on; at shorter lengths, the overhead of calls and allocations dominates.
LONG = 512
LONG_ATTENTION = 2048
COMPARED_AT = 128
BLOCK, COMPRESSION = 256, 3
SEQUENTIAL = {"recurrent": "n", "convolutional": "1", "self-attention": "1", "torch's self-attention": "1"}
COLOURS = {"recurrent": "#D55E00", "convolutional": "#009E73", "self-attention": "#0072B2"}
COLOURS["torch's self-attention"] = "#56B4E9"
ATTENTION = {"naive": "#000000", "fused": "#0072B2", "local": "#CC79A7", "compressed": "#E69F00"}


class NaiveCore(AttentionCore):
    """The formula written out."""

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: AttentionMask,
        dropout: float = 0.0,
        bias: Tensor | None = None,
    ) -> Tensor:
        return naive_attention(query, key, value, mask, bias)[0]


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


def attention(kind: str, d_model: int, heads: int) -> MultiHeadAttention:
    if kind == "local":
        return LocalAttention(d_model, heads, BLOCK)
    if kind == "compressed":
        return CompressedAttention(d_model, heads, COMPRESSION)
    layer = MultiHeadAttention(d_model, heads)
    if kind == "naive":
        layer.core = NaiveCore()
    return layer


def measure_attention(
    kind: str, length: int, d_model: int, heads: int, minimum: float, results: "multiprocessing.Queue[list[float]]"
) -> None:
    """Put into `results` the megabytes that a forward and backward pass takes beyond its input, and its times in ms."""
    tune_cpu()
    layer = attention(kind, d_model, heads)
    x = torch.randn(1, length, d_model, requires_grad=True)

    def one_pass(x: Tensor) -> None:
        layer(x, x, CAUSAL_MASK).sum().backward()

    # Creates threads, kernels and their buffers before the measurement.
    one_pass(torch.randn(1, 256, d_model))
    before = peak_memory()
    one_pass(x)
    megabytes = (peak_memory() - before) / 2**20
    times: list[float] = []
    while len(times) < 3 or sum(times) < 1000 * minimum:
        start = time.perf_counter()
        one_pass(x)
        times.append(1000 * (time.perf_counter() - start))
    results.put([megabytes, *times])


def attention_part(kind: str, d_model: int, heads: int, minimum: float) -> dict[str, list[float]]:
    """Measure one kind of attention at all lengths."""
    spawn = multiprocessing.get_context("spawn")
    part: dict[str, list[float]] = {"lengths": [], "megabytes": [], "milliseconds": [], "fastest": [], "slowest": []}
    for length in LONG_LENGTHS:
        if kind == "naive" and length > LONGEST_NAIVE:
            continue
        results: multiprocessing.Queue[list[float]] = spawn.Queue()
        process = spawn.Process(
            target=measure_attention, args=(kind, length, d_model, heads, minimum, results), daemon=True
        )
        process.start()
        megabytes, *times = results.get(timeout=600)
        process.join()
        values = (length, megabytes, statistics.median(times), min(times), max(times))
        for name, value in zip(part, values, strict=True):
            part[name].append(value)
    return part


def layers_part(d_model: int, heads: int, rounds: int, minimum: float) -> dict[str, list[list[float]]]:
    """Return, for each layer and length, the milliseconds of each counted round."""
    layers = build(d_model, heads)
    measured: dict[str, list[list[float]]] = {name: [[] for _ in LENGTHS] for name in layers}
    for number in range(rounds):
        for index, length in enumerate(LENGTHS):
            for name, layer in layers.items():
                duration = seconds(layer, length, d_model, minimum)
                if number > 0:
                    measured[name][index].append(1000 * duration)
    return measured


def draw(medians: dict[str, list[float]], parts: dict[str, Any], path: Path) -> None:
    """Draw times and memory by length, and write the figure to `path`."""
    figure = Figure(figsize=(16, 4.4), dpi=150, layout="constrained")
    times, long_times, sizes = figure.subplots(1, 3)
    for name, values in medians.items():
        power = exponent(*long_part(values))
        label = f"{name}: n^{power:.1f}, {SEQUENTIAL[name]} sequential"
        style = "--" if name.startswith("torch") else "-"
        times.loglog(LENGTHS, values, color=COLOURS[name], linestyle=style, marker="o", markersize=4, label=label)
    for kind, colour in ATTENTION.items():
        for axes, quantity in ((long_times, "milliseconds"), (sizes, "megabytes")):
            if kind in parts:
                label = f"{kind}: n^{attention_exponent(parts[kind], quantity):.1f}"
                lengths, values = parts[kind]["lengths"], parts[kind][quantity]
                axes.loglog(lengths, values, color=colour, marker="o", markersize=4, label=label)
    times.set(title="One layer, forward and backward", ylabel="milliseconds")
    long_times.set(title="Causal self-attention, forward and backward", ylabel="milliseconds")
    sizes.set(title="Memory of causal self-attention, beyond its input", ylabel="megabytes")
    for axes, lengths in ((times, LENGTHS), (long_times, LONG_LENGTHS), (sizes, LONG_LENGTHS)):
        axes.grid(color="#dddddd", linewidth=0.6, which="both")
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        axes.set_xlabel("sequence length n")
        axes.set_xticks(lengths, [str(length) for length in lengths], minor=False)
        axes.tick_params(axis="x", which="minor", labelbottom=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(png.getvalue())


def attention_exponent(part: dict[str, list[float]], quantity: str) -> float:
    """Return the exponent of a quantity of a part, from LONG_ATTENTION on."""
    lengths = [int(length) for length in part["lengths"]]
    first = lengths.index(LONG_ATTENTION)
    return exponent(lengths[first:], part[quantity][first:])


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
    parser.add_argument(
        "--parts", nargs="*", choices=["layers", *ATTENTION], default=["layers", *ATTENTION], help="what to measure"
    )
    parser.add_argument("--results", type=Path, help="file of measured parts, which is continued")
    arguments = parser.parse_args()

    tune_cpu()
    torch.manual_seed(1)
    parts: dict[str, Any] = {}
    if arguments.results is not None and arguments.results.exists():
        parts = json.loads(arguments.results.read_text())
    for name in arguments.parts:
        if name not in parts:
            parts[name] = (
                layers_part(arguments.d_model, arguments.heads, arguments.rounds, arguments.least)
                if name == "layers"
                else attention_part(name, arguments.d_model, arguments.heads, arguments.least)
            )
    if arguments.results is not None:
        arguments.results.write_text(json.dumps(parts))
    measured: dict[str, list[list[float]]] = parts.get("layers", {})
    medians = {name: [statistics.median(durations) for durations in rounds] for name, rounds in measured.items()}
    draw(medians, parts, arguments.picture)

    print(
        f"d_model {arguments.d_model}, {arguments.heads} heads, one sequence, fp32; dragoman {__version__}, torch "
        f"{torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads; milliseconds, "
        "median (lowest to highest)"
    )
    print_layers(measured)
    powers = {name: exponent(*long_part(values)) for name, values in medians.items()}
    if measured:
        print(f"{'n^':>6}" + "".join(f"{power:>30.2f}" for power in powers.values()) + f"   from length {LONG} on")
        print(f"{'steps':>6}" + "".join(f"{SEQUENTIAL[name]:>30}" for name in measured) + "   sequential")
    kinds = [kind for kind in ATTENTION if kind in parts]
    if kinds:
        print(f"\ncausal self-attention (blocks of {BLOCK}, compression {COMPRESSION}): milliseconds; megabytes")
        print_attention({kind: parts[kind] for kind in kinds})
    index = LENGTHS.index(COMPARED_AT)
    ratio = medians["recurrent"][index] / medians["self-attention"][index] if measured else None
    print(
        json.dumps(
            {
                "ratio": ratio,
                "milliseconds": medians,
                "lengths": LENGTHS,
                "exponents": powers,
                "attention": {kind: parts[kind] for kind in kinds},
                "attention_time_exponents": {kind: attention_exponent(parts[kind], "milliseconds") for kind in kinds},
                "attention_memory_exponents": {kind: attention_exponent(parts[kind], "megabytes") for kind in kinds},
            }
        )
    )


def print_layers(measured: dict[str, list[list[float]]]) -> None:
    """Print the times of the first part, one line for each length."""
    if not measured:
        return
    print(f"{'n':>6}" + "".join(f"{name:>30}" for name in measured))
    for index, length in enumerate(LENGTHS):
        cells = []
        for rounds in measured.values():
            middle, lowest, highest = statistics.median(rounds[index]), min(rounds[index]), max(rounds[index])
            cells.append(f"{middle:.2f} ({lowest:.2f} to {highest:.2f})")
        print(f"{length:>6}" + "".join(f"{cell:>30}" for cell in cells))


def print_attention(parts: dict[str, dict[str, list[float]]]) -> None:
    """Print time and memory of every kind of attention, one line for each length."""
    print(f"{'n':>6}" + "".join(f"{kind:>40}" for kind in parts))
    for length in LONG_LENGTHS:
        cells = []
        for part in parts.values():
            if length in part["lengths"]:
                row = part["lengths"].index(length)
                middle, lowest, highest = part["milliseconds"][row], part["fastest"][row], part["slowest"][row]
                cells.append(f"{middle:.1f} ({lowest:.1f} to {highest:.1f}); {part['megabytes'][row]:.1f}")
            else:
                cells.append("-")
        print(f"{length:>6}" + "".join(f"{cell:>40}" for cell in cells))
    powers = (
        f"{attention_exponent(part, 'milliseconds'):.2f}; {attention_exponent(part, 'megabytes'):.2f}"
        for part in parts.values()
    )
    print(f"{'n^':>6}" + "".join(f"{power:>40}" for power in powers) + f"   from length {LONG_ATTENTION} on")


if __name__ == "__main__":
    main()
