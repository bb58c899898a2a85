"""Damaged and hostile model directories: neither engine crashes, hangs, shows a traceback or takes memory for them."""

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.support.paths import REPOSITORY

# What the trial must tell apart; without torch, so that it takes a second.
TELLS_APART = """
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
    "refuses": lambda settings: fail(ModelError("no model: give one")),
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
    found = {verb: judged(run(verb), undamaged, {}, 1 << 24).outcome for verb in list(VERBS)[-13:]}
print(json.dumps(found))
"""


def run(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    # In a process of its own: it forks, which a process with threads or with torch at work should not do.
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=REPOSITORY, timeout=900, check=False
    )


def test_a_trial_tells_every_outcome_apart() -> None:
    done = run(["-c", TELLS_APART])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
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


def test_hostile_models_do_no_harm() -> None:
    """A minute of the attack that `benchmarks/hostile_models.py` makes for half an hour."""
    done = run(["benchmarks/hostile_models.py", "--cases", "500", "--seed", "1", "--workers", "1"])
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["cases_with_trouble"] == 0
    assert found["runs"] > 1000
    # Not everything is refused before it is looked at.
    assert min(found["clean"], found["same"], found["different"]) > 50
