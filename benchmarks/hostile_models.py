"""Thousands of damaged and hostile model directories, lines and search settings, and what Dragoman does with each.

    python benchmarks/hostile_models.py --cases 20000

Each case is a small model directory in which something is not as it was written (config.json, header, tensors, numbers,
tokenizer, shortlist, alignment, kinds of files), often with every digest made true again, or an undamaged one with
hostile text or search settings. Each engine and another verb in turn try it, in a forked process with limits of time
and memory. Outcomes: clean (an error in one line), same (prints what the undamaged one does), different (prints
something else); and trouble: unclear (a message that is not one printable line of bounded length), traceback, crash,
hang, memory (more than what the undamaged directory takes and twice the size of the files, with an allowance). The exit
status is 1 when there is trouble. `--case N` tries one case again. The last line is JSON, the share of runs without
trouble first.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

# What the cases are made of is shared with the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Before torch is imported: processes that compute are forked from this one, which must have no threads.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import safetensors
import sentencepiece
import torch
from rich.progress import track

from dragoman import __version__
from tests.support.hostile.bases import COMPILED, write_bases
from tests.support.hostile.cases import KINDS, Case, make_case, read_bases
from tests.support.hostile.folder import Files, write_folder
from tests.support.hostile.trial import OUTCOMES, TROUBLE, Result, Running, finish, judged, run_one, start
from tests.support.hostile.verbs import NEED_COMPILED, VERBS, verbs_for, warm_up

# Beyond the figures of the undamaged directory: the interpreter's noise; and what longer text and wider beams cost.
ALLOWANCE, ALLOWANCE_OF_SEARCH = 16 << 20, 256 << 20


def bases_in(folder: Path) -> dict[str, Files]:
    """Make the undamaged directories in another process: this one must not compute in torch."""
    child = os.fork()
    if not child:
        status = 1
        try:
            write_bases(folder)
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return read_bases(folder)


def undamaged_results(bases: dict[str, Files], folder: Path) -> dict[tuple[str, str], Result]:
    """What each verb does on each base as it is."""
    found = {}
    for base, files in bases.items():
        for verb in VERBS:
            if base in COMPILED or verb not in NEED_COMPILED:
                found[base, verb] = run_one(Case(-1, "", base, "", files), verb, folder / "undamaged", bases["post"])
    return found


def runs(numbers: range, seed: int, bases: dict[str, Files], only: str | None) -> Iterator[tuple[Case, str]]:
    for number in numbers:
        case = make_case(number, seed, bases)
        if only in (None, case.kind):
            for verb in verbs_for(number, case.kind, case.base in COMPILED):
                yield case, verb


def attack(
    tries: Iterator[tuple[Case, str]], bases: dict[str, Files], folder: Path, workers: int
) -> Iterator[tuple[Case, str, Result]]:
    """Try everything, `workers` at a time."""
    undamaged = undamaged_results(bases, folder)
    running: list[tuple[Case, str, Running]] = []

    def oldest() -> tuple[Case, str, Result]:
        case, verb, process = running.pop(0)
        allowance = ALLOWANCE_OF_SEARCH if case.kind in ("settings", "text") else ALLOWANCE
        # A damaged vocabulary may well give longer lines.
        return case, verb, judged(finish(process), undamaged[case.base, verb], case.files, allowance)

    for count, (case, verb) in enumerate(tries):
        running.append((case, verb, start(case, verb, folder / str(count), bases["post"])))
        if len(running) >= workers:
            yield oldest()
    while running:
        yield oldest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", choices=list(KINDS), help="cases of this kind only")
    parser.add_argument("--case", type=int, help="this case only, with its tracebacks")
    parser.add_argument("--keep", type=Path, help="write the directory of --case here")
    arguments = parser.parse_args()
    begin = time.monotonic()
    warm_up()
    numbers = range(arguments.first, arguments.first + arguments.cases)
    if arguments.case is not None:
        numbers = range(arguments.case, arguments.case + 1)
        os.environ["HOSTILE_TRACEBACK"] = "1"
    table: dict[str, Counter[str]] = defaultdict(Counter)
    trouble: dict[tuple[str, str], list[str]] = defaultdict(list)
    noise: Counter[str] = Counter()
    troubled, peak = set(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bases").mkdir()
        bases = bases_in(folder / "bases")
        tries = runs(numbers, arguments.seed, bases, arguments.kind)
        for case, verb, result in track(
            attack(tries, bases, folder, arguments.workers),
            "attacking",
            total=2.6 * len(numbers),
            disable=not sys.stderr.isatty(),
        ):
            table[case.kind][result.outcome] += 1
            noise.update(result.noise[:1])
            peak = max(peak, result.peak)
            if result.outcome in TROUBLE:
                troubled.add(case.number)
                trouble[result.outcome, result.detail].append(f"{case.number} {verb} ({case.base}): {case.recipe}")
            if arguments.case is not None:
                print(f"{verb} ({case.kind}, {case.base}): {case.recipe}\n  {result}")
                if arguments.keep is not None and not arguments.keep.exists():
                    write_folder(arguments.keep, case.files)
    print(
        f"dragoman {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"safetensors {safetensors.__version__}, sentencepiece {sentencepiece.__version__}, "
        f"Python {platform.python_version()}"
    )
    total: Counter[str] = sum(table.values(), Counter())
    tried = sum(total.values())
    print(f"{len(numbers):,} cases (seed {arguments.seed}), {tried:,} runs, {time.monotonic() - begin:.0f} s")
    print(f"most memory of a run: {peak / 1e6:.1f} MB")
    for line, count in noise.most_common():
        print(f"on standard error, {count:,} times: {line}")
    print()
    print("| |" + "".join(f" {outcome} |" for outcome in OUTCOMES) + "\n|---|" + "---|" * len(OUTCOMES))
    for kind in [*(kind for kind in KINDS if kind in table), "all"]:
        row = total if kind == "all" else table[kind]
        print(f"| {kind} |" + "".join(f" {row[outcome]:,} |" for outcome in OUTCOMES))
    for (outcome, detail), places in sorted(trouble.items(), key=lambda each: -len(each[1])):
        print(f"\n{outcome}, {len(places)} times: {detail}\n  case {places[0]}")
    without = tried - sum(total[outcome] for outcome in TROUBLE)
    print(
        json.dumps(
            {
                "ratio": without / max(1, tried),
                "cases": len(numbers),
                "cases_with_trouble": len(troubled),
                "runs": tried,
                **{outcome: total[outcome] for outcome in OUTCOMES},
                "most_memory_mb": round(peak / 1e6, 1),
                "seed": arguments.seed,
            }
        )
    )
    sys.exit(bool(troubled))


if __name__ == "__main__":
    main()
