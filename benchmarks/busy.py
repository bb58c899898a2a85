"""Speed on a busy machine: training and translation beside other processes, relative to the same system alone.

    python benchmarks/busy.py                             # generated data, about a quarter of an hour on two cores
    python benchmarks/busy.py corpora/home-assistant/en-de/train.tsv --rounds 3 --seconds 5

Three conditions: quiet; beside a busy loop, which uses one core; and beside a training in torch with as many threads as
there are cores, at the lowest priority (nice 19). The other process has a session of its own, like a program started
from another terminal. Linux shares the processor equally between sessions, and ignores nice between them.

Each system has a process of its own and uses all cores, with its default settings. The systems take turns in every
condition and round. "Always spinning" is Dragoman with GOMP_SPINCOUNT set to libgomp's default, which turns off
`dragoman.threads.SpinControl`. The first two seconds in a condition are not counted. Training is of the preset --shape
on batches of 2,048 tokens; translation is of a model of the paper's base shape with random weights, to outputs of 20
tokens. "One at a time" is one sentence after the other, which all cores share; "batch" has 64 sentences. The torch
search translates one at a time, to outputs of 4 tokens: 20 take half a minute while threads spin beside a busy loop.
The last line is JSON, the least ratio of Dragoman first.
"""

import argparse
import json
import multiprocessing
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dragoman import __version__
from dragoman.data.batching import Batch, collate
from dragoman.threads import SpinControl, available_cpus

CORES = available_cpus()
# Seconds that are not counted, in which a system adapts to the condition.
SETTLE = 2
VOCABULARY, SENTENCES, OUTPUT, SHORT_OUTPUT, BEAM = 8000, 64, 20, 4, 4
SPINNING = {"GOMP_SPINCOUNT": "300000"}
# They end with the benchmark, even if it is killed.
LOOP = """
import os
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""
TORCH_JOB = f"""
import os, torch
os.nice(19)
parent = os.getppid()
torch.set_num_threads({CORES})
model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 512))
x = torch.randn(256, 512)
while os.getppid() == parent:
    model.zero_grad()
    model(x).square().mean().backward()
"""
CONDITIONS = {"quiet": None, "beside a busy loop": LOOP, "beside a niced torch job": TORCH_JOB}
# Does one unit of work and returns the number of tokens.
Work = Callable[[], int]


def generated_batches(count: int, tokens: int = 2048) -> list[Batch]:
    """Batches of random tokens, of sentences of 6 to 24 subwords."""
    generator = random.Random(1)
    batches = []
    for _ in range(count):
        length = generator.randint(6, 24)
        rows = [
            [
                [generator.randrange(4, VOCABULARY) for _ in range(generator.randint(length - 3, length))]
                for _ in range(2)
            ]
            for _ in range(tokens // length)
        ]
        batches.append(collate([source for source, _ in rows], [target for _, target in rows]))
    return batches


def training(name: str, shape: str, batches: list[Batch]) -> Work:
    import peers

    from dragoman.device import select_precision, tune_cpu

    if name == "Dragoman":
        tune_cpu()
    torch.manual_seed(1)
    model, loss = peers.SYSTEMS[name](peers.shape_of(shape, VOCABULARY))
    model.train()
    optimizer: Any = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    bf16 = select_precision("auto", torch.device("cpu")) == "bf16"
    turn = iter(range(sys.maxsize))

    def update() -> int:
        batch = batches[next(turn) % len(batches)]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            value = loss(batch)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return int(batch.target_tokens)

    return update


def sentences() -> list[list[int]]:
    generator = random.Random(2)
    return [[generator.randrange(4, VOCABULARY) for _ in range(generator.randint(5, 25))] for _ in range(SENTENCES)]


def dragoman_search(engine: str, model: Path, batch: bool) -> Work:
    from dragoman.models.description import load_description
    from dragoman.search.config import SearchConfig
    from dragoman.search.results import SearchInput

    backend: Any
    length = OUTPUT if engine == "native" else SHORT_OUTPUT
    if engine == "native":
        from dragoman.native import builds
        from dragoman.native.backend import NativeBackend

        build = builds()[0]
        backend = NativeBackend(model, load_description(model).model, build, build.default_precision)  # type: ignore[arg-type]
    else:
        from dragoman.models.storage import load_model
        from dragoman.search.torch_backend import TorchBackend

        backend = TorchBackend.from_models([load_model(model)])
    search = SearchConfig(beam=BEAM, max_length_factor=0, max_length_offset=length, min_length_offset=length)
    return in_turn(lambda rows: backend.search([SearchInput(row, []) for row in rows], search), batch, length)


def ctranslate2_search(model: Path, batch: bool) -> Work:
    import ctranslate2

    translator = ctranslate2.Translator(
        str(model),
        device="cpu",
        inter_threads=CORES if batch else 1,
        intra_threads=1 if batch else CORES,
        compute_type="default",
    )

    def translate(rows: list[list[int]]) -> None:
        translator.translate_batch(
            [[*map(str, row), str(EOS)] for row in rows],
            beam_size=BEAM,
            max_batch_size=32,
            min_decoding_length=OUTPUT,
            max_decoding_length=OUTPUT,
        )

    from dragoman.text.subwords import EOS

    return in_turn(translate, batch, OUTPUT)


def in_turn(translate: Callable[[list[list[int]]], object], batch: bool, length: int) -> Work:
    rows = sentences()
    turn = iter(range(sys.maxsize))

    def one() -> int:
        translate([rows[next(turn) % len(rows)]])
        return length

    def many() -> int:
        translate(rows)
        return length * len(rows)

    return many if batch else one


def build(system: dict[str, Any]) -> Work:
    match system["kind"]:
        case "training":
            return training(system["model"], system["shape"], system["batches"])
        case "ctranslate2":
            return ctranslate2_search(system["model"], system["batch"])
        case engine:
            return dragoman_search(engine, system["model"], system["batch"])


def contestant(connection: Connection, system: dict[str, Any]) -> None:
    """A process that works for as many seconds as it is sent, and answers with tokens per second."""
    work = build(system)
    work()
    # The search of the torch engine has a control of its own.
    ours = system["kind"] == "training" and system["model"] == "Dragoman"
    control = SpinControl() if ours else None
    connection.send("ready")
    while seconds := connection.recv():
        tokens, begin = 0, time.perf_counter()
        with control.watching() if control else nullcontext():
            while time.perf_counter() - begin < SETTLE:
                work()
            begin = time.perf_counter()
            while (spent := time.perf_counter() - begin) < seconds:
                tokens += work()
        connection.send(tokens / spent)


@contextmanager
def beside(script: str | None) -> Iterator[None]:
    """Run another process for the time of the block."""
    if script is None:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    try:
        # Until it has loaded torch.
        time.sleep(5 if "torch" in script else 0.5)
        yield
    finally:
        process.kill()
        process.wait()


def write_models(folder: Path) -> tuple[Path, Path | None]:
    """Write a model with random weights, and the same for CTranslate2 if it is installed."""
    from dragoman.models.config.transformer import TransformerConfig
    from dragoman.models.description import ModelDescription
    from dragoman.models.storage import save_model, weights_of
    from dragoman.models.transformer import build_transformer

    torch.manual_seed(0)
    config = TransformerConfig(source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY, norm_placement="pre")
    ours, theirs = folder / "dragoman", folder / "ctranslate2"
    ours.mkdir()
    description = ModelDescription(architecture="transformer", model=config, trained_length=100)
    save_model(ours, description, weights_of(build_transformer(config)))
    if find_spec("ctranslate2") is None:
        return ours, None
    import exporting

    exporting.to_ctranslate2(ours, theirs, "int8", [str(number) for number in range(VOCABULARY)])
    return ours, theirs


def systems_of(arguments: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    if arguments.corpora:
        from training import make_batches

        batches = list(islice(make_batches(arguments.corpora, VOCABULARY, 2048), 32))
    else:
        batches = generated_batches(32)
    ours, theirs = write_models(folder)
    train = {"kind": "training", "task": "training", "shape": arguments.shape, "batches": batches}
    one, many = "native engine, one at a time", "native engine, batch"
    systems: list[dict[str, Any]] = [
        {**train, "name": "Dragoman", "model": "Dragoman"},
        {**train, "name": "always spinning", "model": "Dragoman", "environment": SPINNING},
        {**train, "name": "MarianMTModel", "model": "MarianMTModel"},
        {"task": "torch search", "name": "Dragoman", "kind": "torch", "model": ours, "batch": False},
        {"task": "torch search", "name": "always spinning", "kind": "torch", "model": ours, "batch": False}
        | {"environment": SPINNING},
        {"task": one, "name": "Dragoman", "kind": "native", "model": ours, "batch": False},
        {"task": many, "name": "Dragoman", "kind": "native", "model": ours, "batch": True},
    ]
    if theirs:
        peer = {"name": "CTranslate2", "kind": "ctranslate2", "model": theirs}
        systems += [{**peer, "task": one, "batch": False}, {**peer, "task": many, "batch": True}]
    systems.sort(key=lambda system: [train["task"], "torch search", one, many].index(system["task"]))
    return [system for system in systems if any(system["task"].startswith(task) for task in arguments.tasks)]


def start(system: dict[str, Any]) -> Connection:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    before = dict(os.environ)
    try:
        os.environ.update(system.pop("environment", {}))
        spawn.Process(target=contestant, args=(theirs, system), daemon=True).start()
    finally:
        os.environ.clear()
        os.environ.update(before)
    assert ours.recv() == "ready"
    return ours


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(": ")[1] for line in lines if line.startswith("model name")), platform.machine())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", help="to train on; generated batches by default")
    parser.add_argument("--shape", default="small", help="a preset, for training")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5, help="of each system in each condition and round")
    parser.add_argument("--tasks", nargs="+", default=["training", "torch search", "native"])
    arguments = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        systems = systems_of(arguments, Path(folder))
        names = [(system["task"], system["name"]) for system in systems]
        connections = dict(zip(names, map(start, systems), strict=True))
    rates: dict[tuple[str, str], dict[str, list[float]]] = {
        name: {condition: [] for condition in CONDITIONS} for name in names
    }
    for number in range(arguments.rounds):
        for condition, script in CONDITIONS.items():
            with beside(script):
                for name, connection in connections.items():
                    connection.send(arguments.seconds)
                    rates[name][condition].append(connection.recv())
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    for connection in connections.values():
        connection.send(0)

    versions = [f"dragoman {__version__}", f"torch {torch.__version__}", f"Python {platform.python_version()}"]
    for package in ("transformers", "ctranslate2"):
        if find_spec(package):
            versions.append(f"{package} {__import__(package).__version__}")
    print(f"{', '.join(versions)}\n{processor()}, {CORES} cores, {torch.get_num_threads()} threads of torch")
    print(f"target tokens per second, median (lowest to highest of {arguments.rounds}), and the ratio to quiet")
    ratios: dict[str, dict[str, float]] = {}
    for system, measured in rates.items():
        title = ": ".join(system)
        quiet = statistics.median(measured["quiet"])
        ratios[title] = {
            condition: round(statistics.median(values) / quiet, 2) for condition, values in measured.items()
        }
        print(title)
        for condition, values in measured.items():
            median = statistics.median(values)
            print(
                f"    {condition:<26}{median:>9,.0f} ({min(values):,.0f} to {max(values):,.0f}){median / quiet:>8.2f}"
            )
    mine = [values for name, values in ratios.items() if name.endswith(": Dragoman")]
    quiet_lost = {
        task: round(1 - float(np.median(rates[task, "Dragoman"]["quiet"]) / np.median(measured["quiet"])), 3)
        for (task, name), measured in rates.items()
        if name == "always spinning"
    }
    print(
        json.dumps(
            {
                "least_ratio_to_quiet": min(ratio for values in mine for ratio in values.values()),
                "lost_when_quiet": quiet_lost,
                "ratios_to_quiet": ratios,
                "cores": CORES,
            }
        )
    )


if __name__ == "__main__":
    main()
