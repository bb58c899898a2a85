"""Ten million pairs on a small machine: prepare, train, resume, and watch the resident memory.

    python benchmarks/ten_million.py corpora/home-assistant/en-de/train.tsv --pairs 10000000

The text is made from the corpus at hand: pairs of sentences joined and numbered, so that none repeats. `dragoman train`
runs in a process of its own, is stopped in mid-epoch, and resumed; the last line is JSON, the peak of resident memory
(all phases, in MB) first. Resident memory counts what is mapped from files too; "anonymous" is what the process holds.
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

# What the size of the corpus alone would choose, `base` with 37,000 subwords, is 63 M parameters: a gigabyte by itself.
SETTINGS = ["preset=small", "tokenizer.vocabulary_size=8000", "batching.batch_tokens=512"]


def make_corpus(corpus: str, pairs: int, path: Path) -> None:
    known = list(read_pairs(parse_corpus(corpus)))
    draw = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in track(range(pairs), "writing"):
            first, second = draw.choice(known), draw.choice(known)
            file.write(f"{first.source} {number} {second.source}\t{first.target} {number} {second.target}\n")


def memory(process: int) -> tuple[float, float]:
    """Resident and anonymous memory in MB."""
    status = Path(f"/proc/{process}/status").read_text()
    found = {name: int(size) / 1024 for name, size in re.findall(r"(VmRSS|RssAnon):\s+(\d+)", status)}
    return found.get("VmRSS", 0.0), found.get("RssAnon", 0.0)


def updates(log: Path) -> int:
    lines = log.read_text().splitlines() if log.exists() else []
    return max((json.loads(line)["step"] for line in lines if line.endswith("}")), default=0)


def life(command: list[str], out: Path, stop_after: int) -> dict[str, float]:
    """Run until `stop_after` more updates are in the log, then stop it; memory and times by phase."""
    log, begin = out / "run/log.jsonl", time.monotonic()
    before, first, found = updates(log), 0.0, {"peak": 0.0, "anonymous": 0.0, "preparing": 0.0}
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    settled = 0.0
    while process.poll() is None:
        time.sleep(0.2)
        try:
            resident, anonymous = memory(process.pid)
        except FileNotFoundError:
            break
        phase = "peak" if (out / "run/run.json").exists() else "preparing"
        found[phase] = max(found[phase], resident)
        found["anonymous"] = max(found["anonymous"], anonymous)
        done = updates(log) - before
        if (out / "run/run.json").exists() and "prepared_after" not in found:
            found["prepared_after"] = time.monotonic() - begin
        if done and not first:
            first = found["first_updates_after"] = time.monotonic() - begin
        if done >= stop_after // 2 and not settled:
            settled = found["resident_at_half"] = resident
        if done >= stop_after:
            found["resident_at_end"] = resident
            process.send_signal(signal.SIGTERM)
            process.wait()
    found["updates"] = updates(log) - before
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--updates", type=int, default=2000)
    parser.add_argument("--set", nargs="*", default=SETTINGS)
    parser.add_argument("--directory", type=Path, help="where there is room: 5 GB for ten million pairs")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as name:
        directory = Path(name)
        make_corpus(arguments.corpus, arguments.pairs, directory / "corpus.tsv")
        out = directory / "model"
        command = [sys.executable, "-m", "dragoman", "train", str(directory / "corpus.tsv"), "--out", str(out)]
        for setting in ("training.steps=1000000", "training.validations=1", *arguments.set):
            command += ["--set", setting]
        lives = {
            "prepare and train": life(command, out, arguments.updates),
            "resume": life(command, out, 100),
        }
        size = (directory / "corpus.tsv").stat().st_size / 1e6
    print(
        f"dragoman {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"{os.environ.get('OMP_NUM_THREADS', os.cpu_count())} threads\n"
        f"{arguments.pairs:,} pairs, {size:,.0f} MB of text; {' '.join(arguments.set)}"
    )
    for what, found in lives.items():
        print(what, {key: round(value, 1) for key, value in found.items()})
    first, resumed = lives["prepare and train"], lives["resume"]
    print(
        json.dumps(
            {
                "peak_resident_mb": round(max(life[key] for life in lives.values() for key in ("peak", "preparing"))),
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
