"""Kill training with SIGKILL at random moments, and check that the resumed run equals an uninterrupted one.

    python benchmarks/unbreakable.py --kills 200

Each time, a new run of a tiny model in a separate process is killed once, and the same command is started again. It
must resume, and end with the same weights, optimizer state and log as an uninterrupted run, bit for bit. The process is
forked from this one, which avoids importing torch 400 times; otherwise it is `dragoman train`. Every second kill comes
while a checkpoint is written. The last line is JSON and begins with the share of runs that end equal.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.console import Console
from rich.progress import track

from dragoman import __version__
from dragoman.run import train
from dragoman.training import progress
from dragoman.training.checkpoint import save_checkpoint

SETTINGS: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 300},
    "batching": {"batch_tokens": 256, "window": 200},
    "schedule": {"kind": "linear", "peak_learning_rate": 1e-3, "warmup": 5},
    "data": {"validation_pairs": 4},
    "training": {
        "steps": 16,
        "validations": 4,
        "precision": "fp32",
        "optimizer": "muon",
        "average_last": 2,
        "subword_sampling": 0.1,
    },
}


def write_corpus(path: Path) -> None:
    letters = random.Random(1)
    words = ["".join(letters.choices("abcdefgh", k=4)) for _ in range(1000)]
    path.write_text("".join(f"{a} and {b}\t{b} und {a}\n" for a, b in zip(words[::2], words[1::2], strict=True)))


def start_training(corpus: Path, out: Path, pipe: int) -> int:
    """Train in a forked process and return its id. It writes a byte to `pipe` before it saves a checkpoint."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with (
            (out.parent / "output").open("a") as output,
            mock.patch.object(progress, "save_checkpoint", announce_saves(pipe)),
        ):
            train([str(corpus)], out, settings=SETTINGS, console=Console(file=output))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def announce_saves(pipe: int) -> Callable[..., Path]:
    """Return `save_checkpoint` that first writes a byte to `pipe`."""

    def save(*arguments: Any) -> Path:
        os.write(pipe, b"s")
        return save_checkpoint(*arguments)

    return save


def drain(pipe: int) -> None:
    """Read and discard everything that is in the pipe."""
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while os.read(pipe, 1000):
            pass
    os.set_blocking(pipe, True)


def wait_for(child: int) -> int:
    """Wait until a process ends and return its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fingerprint(out: Path) -> dict[str, str]:
    """Return digests of everything that must be equal; times are left out."""
    digests = {}
    for path in sorted(out.rglob("*")):
        if path.suffix == ".safetensors" or path.name == "tokenizer.model":
            digests[str(path.relative_to(out))] = hashlib.sha256(path.read_bytes()).hexdigest()
    events = [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]
    digests["log"] = json.dumps([{key: value for key, value in event.items() if key != "elapsed"} for event in events])
    return digests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="number of runs to kill")
    parser.add_argument("--seed", type=int, default=1, help="seed of the moments")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    moments = random.Random(arguments.seed)
    outcomes: Counter[str] = Counter()
    where: Counter[str] = Counter()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "corpus.tsv"
        write_corpus(corpus)
        reading, writing = os.pipe()
        run_start = time.monotonic()
        assert wait_for(start_training(corpus, directory / "whole", writing)) == 0
        seconds = time.monotonic() - run_start
        saves = len(os.read(reading, 1000))
        expected = fingerprint(directory / "whole")
        out = directory / "broken"
        for number in track(range(arguments.kills), "killing"):
            while True:
                shutil.rmtree(out, ignore_errors=True)
                child = start_training(corpus, out, writing)
                if number % 2:
                    for _ in range(1 + moments.randrange(saves)):
                        os.read(reading, 1)
                    time.sleep(moments.uniform(0, 0.03))
                else:
                    time.sleep(moments.uniform(0, seconds))
                os.kill(child, signal.SIGKILL)
                killed = wait_for(child) == -signal.SIGKILL
                drain(reading)
                if killed:
                    break  # otherwise the run ended before the kill: try again
            half_written = any(out.glob("run/checkpoints/.tmp*"))
            where["a checkpoint half written" if half_written else "elsewhere"] += 1
            code = wait_for(start_training(corpus, out, writing))
            actual = fingerprint(out) if code == 0 else {}
            differing = [name for name in expected.keys() | actual.keys() if actual.get(name) != expected.get(name)]
            outcomes[
                f"different: {sorted(differing)[0]} (exit code {code})"
                if differing
                else "equal to the uninterrupted run"
            ] += 1
            drain(reading)
    print(f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"uninterrupted run: {seconds:.1f} s, {saves} checkpoints; total: {time.monotonic() - start:.0f} s")
    for counter in (where, outcomes):
        for outcome, count in counter.most_common():
            print(f"{count:>6}  {outcome}")
    print(
        json.dumps(
            {
                "good_ends": outcomes["equal to the uninterrupted run"] / arguments.kills,
                "kills": arguments.kills,
                **where,
            }
        )
    )


if __name__ == "__main__":
    main()
