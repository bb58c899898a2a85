"""Kill training with -9 at random moments, in checkpoint writing above all, and see that nothing is lost.

    python benchmarks/unbreakable.py --kills 200

Each time: a new run of a tiny model in a process of its own, killed once, then given the same command again. It must go
on by itself, and end with the weights, the optimizer's state and the log of a run that nobody disturbed, bit for bit.
The process is forked from this one, which spares the import of torch 400 times; all else is `dragoman train`. Every
second kill comes while a checkpoint is being written. The last line is JSON, the share of good ends first.
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


def life(corpus: Path, out: Path, writing: int) -> int:
    """Train in a forked process; returns its number. It writes a byte to the pipe when it begins to save."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        with (
            (out.parent / "output").open("a") as output,
            mock.patch.object(progress, "save_checkpoint", announced(writing)),
        ):
            train([str(corpus)], out, settings=SETTINGS, console=Console(file=output))
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def announced(writing: int) -> Callable[..., Path]:
    def save(*arguments: Any) -> Path:
        os.write(writing, b"s")
        return save_checkpoint(*arguments)

    return save


def drain(pipe: int) -> None:
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while os.read(pipe, 1000):
            pass
    os.set_blocking(pipe, True)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fingerprint(out: Path) -> dict[str, str]:
    """A digest of everything that must be the same; times, of which the log and the position speak, are not."""
    digests = {}
    for path in sorted(out.rglob("*")):
        if path.suffix == ".safetensors" or path.name == "tokenizer.model":
            digests[str(path.relative_to(out))] = hashlib.sha256(path.read_bytes()).hexdigest()
    events = [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]
    digests["log"] = json.dumps([{key: value for key, value in event.items() if key != "elapsed"} for event in events])
    return digests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    moments = random.Random(arguments.seed)
    outcomes: Counter[str] = Counter()
    where: Counter[str] = Counter()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = directory / "corpus.tsv"
        write_corpus(corpus)
        reading, writing = os.pipe()
        started = time.monotonic()
        assert ended(life(corpus, directory / "whole", writing)) == 0
        seconds = time.monotonic() - started
        saves = len(os.read(reading, 1000))
        expected = fingerprint(directory / "whole")
        out = directory / "broken"
        for number in track(range(arguments.kills), "killing"):
            while True:
                shutil.rmtree(out, ignore_errors=True)
                child = life(corpus, out, writing)
                if number % 2:
                    for _ in range(1 + moments.randrange(saves)):
                        os.read(reading, 1)
                    time.sleep(moments.uniform(0, 0.03))
                else:
                    time.sleep(moments.uniform(0, seconds))
                os.kill(child, signal.SIGKILL)
                killed = ended(child) == -signal.SIGKILL
                drain(reading)
                if killed:
                    break  # or it had ended before
            half_written = any(out.glob("run/checkpoints/.tmp*"))
            where["a checkpoint half written" if half_written else "elsewhere"] += 1
            code = ended(life(corpus, out, writing))
            found = fingerprint(out) if code == 0 else {}
            differing = [name for name in expected.keys() | found.keys() if found.get(name) != expected.get(name)]
            outcomes[f"different: {sorted(differing)[0]} (exit code {code})" if differing else "as undisturbed"] += 1
            drain(reading)
    print(f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}")
    print(f"an undisturbed run: {seconds:.1f} s, {saves} checkpoints; all: {time.monotonic() - begin:.0f} s")
    for counter in (where, outcomes):
        for what, count in counter.most_common():
            print(f"{count:>6}  {what}")
    print(json.dumps({"good_ends": outcomes["as undisturbed"] / arguments.kills, "kills": arguments.kills, **where}))


if __name__ == "__main__":
    main()
