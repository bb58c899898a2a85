"""Searches beside the end of the interpreter, Ctrl-C and a fork."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman.search.config import LONGEST_OUTPUT, SearchConfig
from tests.support.native_models import BUILDS, NOT_INSTALLED, pieces, searcher, write

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

ENDLESS = SearchConfig(min_length_offset=LONGEST_OUTPUT, max_length_offset=LONGEST_OUTPUT)
PROGRAM = """
import os, sys, threading, time
from pathlib import Path
from dragoman.models.description import load_description
from dragoman.native import builds
from dragoman.native.backend import NativeBackend
from dragoman.search.config import LONGEST_OUTPUT, SearchConfig
from dragoman.search.results import Piece

directory = Path(sys.argv[1])
config = load_description(directory).model
engine = NativeBackend(directory, config, builds()[0], "int8", threads=2)
endless = SearchConfig(min_length_offset=LONGEST_OUTPUT, max_length_offset=LONGEST_OUTPUT)


def search():
    while True:
        try:
            engine.search([Piece([*range(4, 60)], [])] * 200, endless)
        except RuntimeError as error:
            print(error)


def load():
    while True:
        NativeBackend(directory, config, builds()[0], "int8")

"""


def run(directory: Path, code: str) -> str:
    """The output of PROGRAM and `code`, which end well and without a word of C++."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM + code, str(directory)], capture_output=True, text=True, timeout=60, check=False
    )
    assert found.returncode == 0, found.stderr
    assert "terminate" not in found.stderr
    return found.stdout


@pytest.mark.parametrize("target", ["search", "load"])
def test_the_interpreter_ends_while_a_daemon_thread_works(tmp_path: Path, target: str) -> None:
    write(tmp_path, {"d_model": 128, "d_ff": 512})
    for delay in (0.0, 0.02, 0.1, 0.2):
        code = f"[threading.Thread(target={target}, daemon=True).start() for _ in range(3)]; time.sleep({delay})"
        run(tmp_path, code)


def test_a_search_after_the_end_is_refused(tmp_path: Path) -> None:
    """What is registered before the engine is loaded runs after the engine has closed."""
    write(tmp_path)
    code = """
import atexit
late = NativeBackend(directory, config, builds()[0], "int8", threads=1)
atexit._run_exitfuncs()
for call in (lambda: late.search([Piece([5], [])], SearchConfig()), lambda: late.logits([5], [6])):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""
    assert run(tmp_path, code).split("\n")[:2] == ["the interpreter is ending"] * 2


def test_a_fork_beside_searches_can_end_and_search(tmp_path: Path) -> None:
    """The child has none of the threads that it would otherwise wait for."""
    write(tmp_path, {"d_model": 128, "d_ff": 512})
    code = """
threading.Thread(target=search, daemon=True).start()
time.sleep(0.2)
if (child := os.fork()) == 0:
    print(len(engine.search([Piece([5], [])], SearchConfig())), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run(tmp_path, code).startswith("1\n")


@pytest.mark.parametrize("sources", [[[*range(4, 60)]] * 200, [[*range(4, 60)] * 600]], ids=["many", "long"])
def test_an_interrupt_is_prompt(tmp_path: Path, sources: list[list[int]]) -> None:
    """Among many sentences, and within one that alone takes minutes."""
    config = write(tmp_path, {"d_model": 128, "d_ff": 512})
    engine = searcher(tmp_path, config)
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    interrupt = threading.Timer(0.5, send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            engine.search(pieces(sources), ENDLESS)
        assert time.monotonic() - sent[0] < 5  # a second at most, where the machine is free
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
