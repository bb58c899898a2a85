"""Measure the resident memory of preparing, training and resuming with ten million pairs.

    python benchmarks/ten_million.py corpora/home-assistant/en-de/train.tsv --pairs 10000000

The text is generated from the given corpus: two pairs are joined and numbered, so that no pair repeats. `dragoman
train` runs in a separate process, is stopped in mid-epoch, and is resumed. Resident memory includes memory-mapped
files; "anonymous" memory does not. The last line is JSON and begins with the peak of resident memory over all phases,
in MB.
"""

import argparse
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from rich.progress import track

from dragoman import __version__
from dragoman.data.readers import parse_corpus, read_pairs

# The default for a corpus of this size, `base` with 37,000 subwords, needs a gigabyte for its 63 M parameters and the
# optimizer.
SETTINGS = ["preset=small", "tokenizer.vocabulary_size=8000", "batching.batch_tokens=512"]


def make_corpus(corpus: str, pairs: int, path: Path) -> None:
    originals = list(read_pairs(parse_corpus(corpus)))
    generator = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in track(range(pairs), "writing"):
            first, second = generator.choice(originals), generator.choice(originals)
            file.write(f"{first.source} {number} {second.source}\t{first.target} {number} {second.target}\n")


def memory(process: int) -> tuple[float, float]:
    """Return the resident and the anonymous memory of a process in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    sizes = {name: int(size) / 1024 for name, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+)", status)}
    return sizes.get("VmRSS", 0.0), sizes.get("RssAnon", 0.0)


def updates(log: Path) -> int:
    """Return the number of the last update in a log."""
    lines = log.read_text().splitlines() if log.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def run_until(command: list[str], out: Path, stop_after: int) -> dict[str, float]:
    """Run a command, stop it after `stop_after` more updates in the log, and return its memory and times by phase."""
    log, start = out / "run/log.jsonl", time.monotonic()
    before, first, measured = updates(log), 0.0, {"peak": 0.0, "anonymous": 0.0, "preparing": 0.0}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    settled = 0.0
    while process.poll() is None:
        time.sleep(0.2)
        try:
            resident, anonymous = memory(process.pid)
        except FileNotFoundError:
            break
        phase = "peak" if (out / "run/run.json").exists() else "preparing"
        measured[phase] = max(measured[phase], resident)
        measured["anonymous"] = max(measured["anonymous"], anonymous)
        done = updates(log) - before
        if (out / "run/run.json").exists() and "prepared_after" not in measured:
            measured["prepared_after"] = time.monotonic() - start
        if done and not first:
            first = measured["first_updates_after"] = time.monotonic() - start
        if done >= stop_after // 2 and not settled:
            settled = measured["resident_at_half"] = resident
        if done >= stop_after:
            measured["resident_at_end"] = resident
            process.send_signal(signal.SIGTERM)
            process.wait()
    measured["updates"] = updates(log) - before
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", help="corpus from which the pairs are generated")
    parser.add_argument("--pairs", type=int, default=10_000_000, help="pairs to generate")
    parser.add_argument("--updates", type=int, default=2000, help="updates before the run is stopped")
    parser.add_argument("--set", nargs="*", default=SETTINGS, help="settings of the run")
    parser.add_argument("--directory", type=Path, help="directory for temporary files; ten million pairs need 5 GB")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        directory = Path(name)
        make_corpus(arguments.corpus, arguments.pairs, directory / "corpus.tsv")
        out = directory / "model"
        command = [sys.executable, "-m", "dragoman", "train", str(directory / "corpus.tsv"), "--out", str(out)]
        for setting in ("training.steps=1000000", "training.validations=1", *arguments.set):
            command += ["--set", setting]
        phases = {
            "prepare and train": run_until(command, out, arguments.updates),
            "resume": run_until(command, out, 100),
        }
        size = (directory / "corpus.tsv").stat().st_size / 1e6
    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{os.environ.get('OMP_NUM_THREADS', os.cpu_count())} threads\n"
        f"{arguments.pairs:,} pairs, {size:,.0f} MB of text; {' '.join(arguments.set)}"
    )
    for phase, measured in phases.items():
        print(phase, {key: round(value, 1) for key, value in measured.items()})
    first, resumed = phases["prepare and train"], phases["resume"]
    print(
        json.dumps(
            {
                "peak_resident_mb": round(
                    max(measured[key] for measured in phases.values() for key in ("peak", "preparing"))
                ),
                "preparing_mb": round(first["preparing"]),
                "training_mb": round(first["peak"]),
                "growth_over_second_half_mb": round(first.get("resident_at_end", 0) - first.get("resident_at_half", 0)),
                "seconds_to_prepare": round(first.get("prepared_after", 0)),
                "seconds_to_first_ten_updates": round(first["first_updates_after"] - first["prepared_after"], 1),
                "seconds_to_resume_with_ten_updates": round(resumed["first_updates_after"], 1),
            }
        )
    )


if __name__ == "__main__":
    main()
