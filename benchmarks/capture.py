"""Measure what it costs that attention can be inspected, when nothing is inspected.

    python benchmarks/capture.py [--preset small]

Every attention computes its weights in a module without parameters, so that hooks can be registered on it. The script
compares a model with these modules, the same model with the plain function in their place, and a capture of all
weights, in turn: forward and backward pass of a batch, and greedy search. The last line is JSON and begins with the
ratio of the training times with and without the modules.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from dragoman import __version__
from dragoman.attention import MultiHeadAttention, scaled_dot_product_attention
from dragoman.device import tune_cpu
from dragoman.inspection.capture import capture
from dragoman.models.registry import build_model, preset
from dragoman.models.seq2seq import Seq2Seq
from dragoman.search.config import SearchConfig
from dragoman.search.sampling import greedy_search
from dragoman.search.stepper import SingleModel

VOCABULARY, SENTENCES, LENGTH = 8000, 32, 24
SEARCH = SearchConfig(beam=1, max_length_factor=0, max_length_offset=LENGTH)


@contextmanager
def without_modules(model: Seq2Seq) -> Iterator[None]:
    """Replace the attention modules of a model by the plain function within the context."""
    attentions = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    cores = [module.core for module in attentions]
    for module in attentions:
        del module.core
        object.__setattr__(module, "core", scaled_dot_product_attention)
    yield
    for module, core in zip(attentions, cores, strict=True):
        object.__delattr__(module, "core")
        module.core = core


def seconds(work: Callable[[], object], minimum: float) -> float:
    """Return the mean time of a call, measured over at least `minimum` seconds."""
    calls, start = 0, time.perf_counter()
    while True:
        work()
        calls += 1
        if (elapsed := time.perf_counter() - start) > minimum:
            return elapsed / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small", help="preset of the Transformer")
    parser.add_argument("--rounds", type=int, default=11, help="counted rounds")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of each measurement")
    options = parser.parse_args()
    tune_cpu()
    torch.manual_seed(1)
    model = build_model(preset(options.preset, VOCABULARY, VOCABULARY, joint=True))
    rows = torch.randint(4, VOCABULARY, (SENTENCES, LENGTH)).tolist()
    source = torch.tensor(rows)
    mask = torch.ones_like(source, dtype=torch.bool)

    def train() -> None:
        states = model(source, mask, source, mask).rows
        states.sum().backward()

    def search() -> None:
        stepper = SingleModel(model)
        with torch.no_grad():
            state = stepper.start(source, mask)
            greedy_search(stepper, state, [LENGTH] * SENTENCES, SEARCH, source.device, keep_rows=True)

    times: dict[str, list[float]] = {
        name: []
        for name in ("training, modules", "training, plain", "search, modules", "search, plain", "forward", "capture")
    }

    def forward() -> None:
        with torch.no_grad():
            model.decode_states(source, model.encode(source, mask), mask)

    for number in range(options.rounds + 1):
        measured = {
            "training, modules": seconds(train, options.seconds),
            "search, modules": seconds(search, options.seconds),
            "forward": seconds(forward, options.seconds),
            "capture": seconds(lambda: capture(model, rows, rows), options.seconds),
        }
        with without_modules(model):
            measured["training, plain"] = seconds(train, options.seconds)
            measured["search, plain"] = seconds(search, options.seconds)
        if number > 0:  # the first round is a warm-up
            for name, duration in measured.items():
                times[name].append(duration)
    ratios = {
        "training": [a / b for a, b in zip(times["training, modules"], times["training, plain"], strict=True)],
        "search": [a / b for a, b in zip(times["search, modules"], times["search, plain"], strict=True)],
        "capture over forward": [a / b for a, b in zip(times["capture"], times["forward"], strict=True)],
    }
    print(f"{'':22} median   lowest to highest")
    for name, values in ratios.items():
        print(f"{name:22} {statistics.median(values):6.3f}   {min(values):.3f} to {max(values):.3f}")
    print(
        f"{options.preset}, {SENTENCES} sentences of {LENGTH} subwords, {options.rounds} rounds, "
        f"{torch.get_num_threads()} threads; dragoman {__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}"
    )
    print(
        json.dumps(
            {
                "ratio": statistics.median(ratios["training"]),
                "search": statistics.median(ratios["search"]),
                "capture_over_forward": statistics.median(ratios["capture over forward"]),
                "rounds": options.rounds,
            }
        )
    )


if __name__ == "__main__":
    main()
