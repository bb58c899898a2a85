"""Searches in progress during the interpreter's shutdown, Ctrl-C and a fork."""

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from dragoman.search.config import MAX_OUTPUT_LENGTH, SearchConfig
from tests.support.native_language import write_language_model
from tests.support.native_models import BUILDS, NOT_INSTALLED, native_backend, search_inputs, write_model

pytestmark = pytest.mark.skipif(not BUILDS, reason=NOT_INSTALLED)

ENDLESS = SearchConfig(min_length_offset=MAX_OUTPUT_LENGTH, max_length_offset=MAX_OUTPUT_LENGTH)
PROGRAM = """
import os, sys, threading, time
from pathlib import Path
from dragoman.models.description import load_description
from dragoman.native import builds
from dragoman.native.backend import NativeBackend
from dragoman.search.config import MAX_OUTPUT_LENGTH, SearchConfig
from dragoman.search.results import SearchInput

directory = Path(sys.argv[1])
config = load_description(directory).model
backend = NativeBackend(directory, config, builds()[0], "int8", threads=2)
endless = SearchConfig(min_length_offset=MAX_OUTPUT_LENGTH, max_length_offset=MAX_OUTPUT_LENGTH)


def search():
    while True:
        try:
            backend.search([SearchInput([*range(4, 60)], [])] * 200, endless)
        except RuntimeError as error:
            print(error)


def load():
    while True:
        NativeBackend(directory, config, builds()[0], "int8")

"""


def run(directory: Path, code: str) -> str:
    """Run PROGRAM followed by `code`, which must succeed without an abort in C++; return the output."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM + code, str(directory)], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "terminate" not in process.stderr
    return process.stdout


@pytest.mark.parametrize("target", ["search", "load"])
def test_the_interpreter_shuts_down_while_a_daemon_thread_searches_or_loads(tmp_path: Path, target: str) -> None:
    write_model(tmp_path, {"d_model": 128, "d_ff": 512})
    for delay in (0.0, 0.02, 0.1, 0.2):
        code = f"[threading.Thread(target={target}, daemon=True).start() for _ in range(3)]; time.sleep({delay})"
        run(tmp_path, code)


LANGUAGE_PROGRAM = """
import sys, threading, time
from pathlib import Path
import numpy as np
from dragoman.models.description import load_description
from dragoman.native import builds
from dragoman.native.language_backend import NativeLanguageModel

directory = Path(sys.argv[1])
model = NativeLanguageModel(directory, load_description(directory).model, builds()[0], "int8", threads=1)
# A brief call runs in the calling thread, a long one in a thread of its own.
texts = [np.full((1, length), 5) for length in (1, 2000)]


def read(tokens):
    while True:
        try:
            model.read(tokens, model.start(1))
        except RuntimeError as error:
            print(error)


[threading.Thread(target=read, args=(tokens,), daemon=True).start() for tokens in texts]
time.sleep(0.1)
"""


def test_the_interpreter_shuts_down_while_a_daemon_thread_runs_a_language_model(tmp_path: Path) -> None:
    write_language_model(tmp_path, {"d_model": 128, "d_ff": 512})
    process = subprocess.run(
        [sys.executable, "-c", LANGUAGE_PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 0, process.stderr
    assert "terminate" not in process.stderr


def test_a_search_after_the_shutdown_is_refused(tmp_path: Path) -> None:
    """Exit functions that were registered before the engine was loaded run after it has been closed."""
    write_model(tmp_path)
    code = """
import atexit
late = NativeBackend(directory, config, builds()[0], "int8", threads=1)
atexit._run_exitfuncs()
for call in (lambda: late.search([SearchInput([5], [])], SearchConfig()), lambda: late.logits([5], [6])):
    try:
        call()
    except RuntimeError as error:
        print(error)
"""
    assert run(tmp_path, code).split("\n")[:2] == ["the Python interpreter is shutting down"] * 2


def test_a_forked_child_can_search_and_exit(tmp_path: Path) -> None:
    """The other threads, for which it would wait at its exit, do not exist in the child."""
    write_model(tmp_path, {"d_model": 128, "d_ff": 512})
    code = """
threading.Thread(target=search, daemon=True).start()
time.sleep(0.2)
if (child := os.fork()) == 0:
    print(len(backend.search([SearchInput([5], [])], SearchConfig())), flush=True)
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    assert run(tmp_path, code).startswith("1\n")


@pytest.mark.parametrize("sources", [[[*range(4, 60)]] * 200, [[*range(4, 60)] * 600]], ids=["many", "long"])
def test_an_interrupt_takes_effect_promptly(tmp_path: Path, sources: list[list[int]]) -> None:
    """Both between many sentences, and within a single sentence that takes minutes."""
    config = write_model(tmp_path, {"d_model": 128, "d_ff": 512})
    backend = native_backend(tmp_path, config)
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    interrupt = threading.Timer(0.5, send)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            backend.search(search_inputs(sources), ENDLESS)
        assert time.monotonic() - sent[0] < 5  # at most one second on an idle machine
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
