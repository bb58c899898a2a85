"""Damaged and hostile model directories cause no crash, hang, traceback or large memory use in either engine."""

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.support.paths import REPOSITORY

# Runs a command with each outcome; without torch, so that it takes a second.
ALL_OUTCOMES = """
import ctypes, json, os, sys, tempfile, time
from pathlib import Path
from dragoman.errors import ModelError
from tests.support.hostile import trial
from tests.support.hostile.cases import Case
from tests.support.hostile.trial import judged, run_one
from tests.support.hostile.verbs import VERBS

def fail(error):
    raise error

trial.SECONDS = 1
held = []
VERBS |= {
    "prints": lambda settings: print("a line"),
    "prints another": lambda settings: print("another line"),
    "refuses": lambda settings: fail(ModelError("no model: name one")),
    "refuses in two lines": lambda settings: fail(ModelError("no model\\nline 2")),
    "refuses at length": lambda settings: fail(ModelError("no " * 1000)),
    "breaks": lambda settings: fail(KeyError("name")),
    "leaves": lambda settings: sys.exit(1),
    "crashes": lambda settings: ctypes.string_at(0),
    "dies": lambda settings: os.kill(os.getpid(), 9),
    "stops": lambda settings: os._exit(3),
    "hangs": lambda settings: time.sleep(60),
    "fills memory": lambda settings: held.append(b"x" * (1 << 26)),
    "asks for memory": lambda settings: held.append(bytearray(1 << 33)),
}
with tempfile.TemporaryDirectory() as name:
    def run(verb):
        return run_one(Case(0, "", "", "", {"config.json": b"{}"}), verb, Path(name) / "folder", {})
    undamaged = run("prints")
    outcomes = {verb: judged(run(verb), undamaged, {}, 1 << 24).outcome for verb in list(VERBS)[-13:]}
print(json.dumps(outcomes))
"""


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # In a separate process, because it forks: a process with threads, or in which torch computes, should not fork.
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=REPOSITORY, timeout=900, check=False
    )


def test_all_outcomes_of_a_trial_are_distinguished() -> None:
    process = run(["-c", ALL_OUTCOMES])
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == {
        "prints": "same",
        "prints another": "different",
        "refuses": "clean",
        "refuses in two lines": "unclear",
        "refuses at length": "unclear",
        "breaks": "traceback",
        "leaves": "traceback",
        "crashes": "crash",
        "dies": "crash",
        "stops": "crash",
        "hangs": "hang",
        "fills memory": "memory",
        "asks for memory": "memory",
    }


def test_hostile_models_cause_no_bug_outcome() -> None:
    """A sample of the cases of `benchmarks/hostile_models.py`; takes a minute."""
    process = run(["benchmarks/hostile_models.py", "--cases", "500", "--seed", "1", "--workers", "1"])
    assert process.returncode == 0, process.stdout + process.stderr
    counts = json.loads(process.stdout.splitlines()[-1])
    assert counts["cases_with_trouble"] == 0
    assert counts["runs"] > 1000
    # Not all cases are refused by the first check.
    assert min(counts["clean"], counts["same"], counts["different"]) > 50
