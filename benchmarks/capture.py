"""What it costs that attention can be looked at, when nobody looks.

    python benchmarks/capture.py [--preset small]

Every attention calls a module without parameters, on which hooks can be hung. Beside it, in turn: the same model with
the plain function in its place, as if nothing could be seen; and a capture of all weights. Forward and backward of a
batch, and a greedy search. The last line is JSON, the ratio first: time with the modules over time without, training.
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
def plain(model: Seq2Seq) -> Iterator[None]:
    """Inside, the model's attentions call the function itself."""
    cores = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    kept = [module.core for module in cores]
    for module in cores:
        del module.core
        object.__setattr__(module, "core", scaled_dot_product_attention)
    yield
    for module, core in zip(cores, kept, strict=True):
        object.__delattr__(module, "core")
        module.core = core


def seconds(work: Callable[[], object], least: float) -> float:
    """Of one call, the mean over as many as fit into `least` seconds."""
    calls, began = 0, time.perf_counter()
    while True:
        work()
        calls += 1
        if (elapsed := time.perf_counter() - began) > least:
            return elapsed / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="small")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
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

    for counted in range(options.rounds + 1):
        measured = {
            "training, modules": seconds(train, options.seconds),
            "search, modules": seconds(search, options.seconds),
            "forward": seconds(forward, options.seconds),
            "capture": seconds(lambda: capture(model, rows, rows), options.seconds),
        }
        with plain(model):
            measured["training, plain"] = seconds(train, options.seconds)
            measured["search, plain"] = seconds(search, options.seconds)
        if counted:  # the first round warms up
            for name, took in measured.items():
                times[name].append(took)
    ratios = {
        "training": [a / b for a, b in zip(times["training, modules"], times["training, plain"], strict=True)],
        "search": [a / b for a, b in zip(times["search, modules"], times["search, plain"], strict=True)],
        "capture over forward": [a / b for a, b in zip(times["capture"], times["forward"], strict=True)],
    }
    print(f"{'':22} median   lowest to highest")
    for name, each in ratios.items():
        print(f"{name:22} {statistics.median(each):6.3f}   {min(each):.3f} to {max(each):.3f}")
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
