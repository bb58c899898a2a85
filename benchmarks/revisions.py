"""Compare the training and translation speed of two revisions of Dragoman.

    git worktree add ../before COMMIT && (cd ../before && python setup.py build_ext --inplace)
    python benchmarks/revisions.py ../before TRAIN.tsv --test TEST.tsv

In every round, the revisions take turns in separate processes. Each makes the same training run from the command line,
timed by its log (after the first ten updates), and then translates the test set with one model that the old revision
trained. All values are rates. The last line is JSON and begins with the lowest ratio of this revision to the old one.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parents[1]
ARCHITECTURES = ("transformer", "recurrent", "convolutional", "universal")
# Uses only public names that both revisions have.
TRANSLATE = """
import json, sys, time
from pathlib import Path
from dragoman import Translator

model, text, engine, beam, at_once, limit = sys.argv[1:]
try:
    from dragoman.search.config import SearchConfig
except ImportError:
    from dragoman.decoding.search import SearchConfig
lines = Path(text).read_text(encoding="utf-8").splitlines()[: int(limit)]
sources = [line.split("\\t")[0] for line in lines]
options = {} if engine == "torch" else {"threads": 1}
translator = Translator.load(Path(model), engine=engine, **options)
search = SearchConfig(beam=int(beam))
translator.translate(sources[:8], search=search)
start = time.perf_counter()
size = int(at_once)
parts = [sources[i : i + size] for i in range(0, len(sources), size)]
outputs = [translation.text for part in parts for translation in translator.translate(part, search=search)]
print(json.dumps({"rate": len(sources) / (time.perf_counter() - start), "outputs": outputs}))
"""
# Name (a key of the JSON; "compiled" is the native engine), engine, beam, lines at once, number of test lines.
TRANSLATING = (
    ("compiled, beam 4, all at once", "native", 4, 10_000, 1000),
    ("compiled, greedy, all at once", "native", 1, 10_000, 1000),
    ("compiled, beam 4, line by line", "native", 4, 1, 300),
    ("torch, beam 4, all at once", "torch", 4, 10_000, 100),
)


def run(checkout: Path, arguments: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, cwd="/")
    if process.returncode:
        sys.exit(f"{checkout}: {process.stderr}")
    return process.stdout


def train(checkout: Path, corpus: Path, architecture: str, updates: int, out: Path) -> float:
    """Train a model and return the rate in target tokens per second."""
    options = {
        "training.steps": updates,
        "training.validations": 1,
        "training.precision": "fp32",
        "data.validation_pairs": 1,
        "batching.batch_tokens": 1024,
        "tokenizer.vocabulary_size": 4000,
    }
    settings = [f"--set={name}={json.dumps(value)}" for name, value in options.items()]
    run(
        checkout,
        [
            "-m",
            "dragoman",
            "train",
            str(corpus),
            "--out",
            str(out),
            "--model",
            architecture,
            "--preset",
            "small",
            *settings,
        ],
    )
    log = [json.loads(line) for line in (out / "run" / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    first, *others = [event for event in log if event["event"] == "step"]
    return float(sum(event["target_tokens"] for event in others) / (others[-1]["elapsed"] - first["elapsed"]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "old", type=Path, help="checkout of the revision to compare with, with its native engine compiled"
    )
    parser.add_argument("corpus", type=Path, help="training corpus")
    parser.add_argument("--test", type=Path, required=True, help="test corpus, TSV without compression")
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each revision")
    parser.add_argument("--updates", type=int, default=60, help="updates of each training run")
    parser.add_argument("--architectures", nargs="*", default=ARCHITECTURES, help="architectures to train")
    arguments = parser.parse_args()
    corpus, test = arguments.corpus.resolve(), arguments.test.resolve()
    revisions = {"old": arguments.old.resolve(), "new": HERE}
    rates: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    same: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(arguments.rounds):
            # The order alternates, because the position in a round may influence the speed.
            order = list(revisions.items())[:: 1 if number % 2 else -1]
            for architecture in arguments.architectures:
                for name, checkout in order:
                    out = Path(folder) / f"{architecture}-{name}-{number}"
                    rates[f"training, {architecture}"][name].append(
                        train(checkout, corpus, architecture, arguments.updates, out)
                    )
            if number == 0:
                teacher = Path(folder) / "teacher"
                train(revisions["old"], corpus, "transformer", 5 * arguments.updates, teacher)
            for measurement, engine, beam, at_once, lines in TRANSLATING:
                outputs = {}
                for name, checkout in order:
                    command = ["-c", TRANSLATE, str(teacher), str(test), engine, str(beam), str(at_once), str(lines)]
                    result = json.loads(run(checkout, command))
                    rates[measurement][name].append(result["rate"])
                    outputs[name] = result["outputs"]
                same[measurement] = same.get(measurement, True) and outputs["old"] == outputs["new"]
    print(f"{'':32} {'old':>9} {'new':>9} {'new/old':>8} {'pair by pair':>15}  output")
    ratios = {}
    for measurement, by_name in rates.items():
        pairs = [new / old for old, new in zip(by_name["old"], by_name["new"], strict=True)]
        ratios[measurement] = statistics.median(pairs)
        medians = [statistics.median(by_name[name]) for name in ("old", "new")]
        output = {True: "equal", False: "DIFFERENT", None: ""}[same.get(measurement)]
        print(
            f"{measurement:32} {medians[0]:9,.0f} {medians[1]:9,.0f} {ratios[measurement]:8.3f} "
            f"{min(pairs):7.3f}-{max(pairs):.3f}  {output}"
        )
    print(
        f"target tokens or lines per second; {arguments.rounds} rounds; torch {torch.__version__}, {platform.machine()}"
    )
    print(json.dumps({"lowest_ratio": min(ratios.values()), "ratios": ratios, "same_output": all(same.values())}))


if __name__ == "__main__":
    main()
