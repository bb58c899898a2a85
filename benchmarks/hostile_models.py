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
from dataclasses import dataclass, field
from pathlib import Path

# What the cases are made of is shared with the tests.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
# Before torch is imported: processes that compute are forked from this one, which must have no threads.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import safetensors
import sentencepiece
import torch
from rich.progress import Progress

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
                result = run_one(Case(-1, "", base, "", files), verb, folder / "undamaged", bases["post"])
                assert result.outcome not in TROUBLE, f"{verb} fails on the undamaged {base}: {result}"
                found[base, verb] = result
    return found


def runs(numbers: range, seed: int, bases: dict[str, Files], only: str | None) -> Iterator[tuple[Case, str]]:
    for number in numbers:
        case = make_case(number, seed, bases)
        if only in (None, case.kind):
            for verb in verbs_for(number, case.kind, case.base in COMPILED):
                yield case, verb


def attack(
    tries: Iterator[tuple[Case, str]], bases: dict[str, Files], folder: Path, workers: int, *, tracebacks: bool
) -> Iterator[tuple[Case, str, Result]]:
    """Try everything, `workers` at a time."""
    undamaged = undamaged_results(bases, folder)
    running: list[tuple[Case, str, Running]] = []

    def oldest() -> tuple[Case, str, Result]:
        case, verb, process = running.pop(0)
        allowance = ALLOWANCE_OF_SEARCH if case.kind in ("settings", "text") else ALLOWANCE
        return case, verb, judged(finish(process), undamaged[case.base, verb], case.files, allowance)

    for count, (case, verb) in enumerate(tries):
        running.append((case, verb, start(case, verb, folder / str(count), bases["post"], tracebacks=tracebacks)))
        if len(running) >= workers:
            yield oldest()
    while running:
        yield oldest()


@dataclass
class Findings:
    """What came out.

    table    runs by kind of case and outcome
    trouble  runs by outcome and detail
    noise    first lines on standard error that no verb means to print
    """

    table: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    trouble: dict[tuple[str, str], list[str]] = field(default_factory=lambda: defaultdict(list))
    noise: Counter[str] = field(default_factory=Counter)
    troubled: set[int] = field(default_factory=set)
    peak: int = 0

    def add(self, case: Case, verb: str, result: Result) -> None:
        self.table[case.kind][result.outcome] += 1
        self.noise.update(result.noise[:1])
        self.peak = max(self.peak, result.peak)
        if result.outcome in TROUBLE:
            self.troubled.add(case.number)
            recipe = f"case {case.number}, {verb} ({case.base}): {case.recipe}"
            known = self.trouble[result.outcome, result.detail]
            if not known:
                # At once: the table comes after half an hour.
                print(f"{result.outcome}: {result.detail}\n  {recipe}", file=sys.stderr)
            known.append(recipe)

    def report(self, cases: int, seed: int, seconds: float) -> None:
        print(
            f"dragoman {__version__}, torch {torch.__version__}, numpy {np.__version__}, "
            f"safetensors {safetensors.__version__}, sentencepiece {sentencepiece.__version__}, "
            f"Python {platform.python_version()}"
        )
        total: Counter[str] = sum(self.table.values(), Counter())
        print(f"{cases:,} cases (seed {seed}), {sum(total.values()):,} runs, {seconds:.0f} s")
        print(f"most memory of a run: {self.peak / 1e6:.1f} MB")
        for line, count in self.noise.most_common():
            print(f"on standard error, {count:,} times: {line}")
        print("\n| |" + "".join(f" {outcome} |" for outcome in OUTCOMES) + "\n|---|" + "---|" * len(OUTCOMES))
        for kind, row in [*((kind, self.table[kind]) for kind in KINDS if kind in self.table), ("all", total)]:
            print(f"| {kind} |" + "".join(f" {row[outcome]:,} |" for outcome in OUTCOMES))
        for (outcome, detail), recipes in sorted(self.trouble.items(), key=lambda each: -len(each[1])):
            print(f"\n{outcome}, {len(recipes)} times: {detail}\n  {recipes[0]}")
        figures = {
            "ratio": 1 - len(self.troubled) / cases,
            "cases": cases,
            "cases_with_trouble": len(self.troubled),
            "runs": sum(total.values()),
            **{outcome: total[outcome] for outcome in OUTCOMES},
            "most_memory_mb": round(self.peak / 1e6, 1),
            "seed": seed,
        }
        print(json.dumps(figures))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kind", choices=list(KINDS), help="cases of this kind only")
    parser.add_argument("--case", type=int, help="this case only, with its tracebacks")
    parser.add_argument("--keep", type=Path, help="write the directory of --case here")
    arguments = parser.parse_args()
    begin = time.monotonic()
    warm_up()
    alone = arguments.case is not None
    numbers = range(arguments.case, arguments.case + 1) if alone else range(arguments.cases)
    findings = Findings()
    # No thread may draw the bar: processes are forked from this one.
    progress = Progress(auto_refresh=False, transient=True, disable=not sys.stderr.isatty())
    with tempfile.TemporaryDirectory() as name, progress:
        folder = Path(name)
        (folder / "bases").mkdir()
        bases = bases_in(folder / "bases")
        bar = progress.add_task("attacking", total=len(numbers))
        tries = runs(numbers, arguments.seed, bases, arguments.kind)
        for case, verb, result in attack(tries, bases, folder, arguments.workers, tracebacks=alone):
            findings.add(case, verb, result)
            progress.update(bar, completed=case.number - numbers.start, refresh=case.number % 20 == 0)
            if alone:
                print(f"{case.kind}, {case.base}, {verb}: {case.recipe}\n  {result}")
        if arguments.keep is not None:
            write_folder(arguments.keep, make_case(numbers.start, arguments.seed, bases).files)
    findings.report(len(numbers), arguments.seed, time.monotonic() - begin)
    sys.exit(bool(findings.troubled))


if __name__ == "__main__":
    main()
