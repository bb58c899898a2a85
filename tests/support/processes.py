"""The command line in a separate process, as a terminal starts it."""

import sys
from pathlib import Path

# If the tests run in the background, the shell makes them and their child processes ignore SIGINT.
_PROGRAM = """
import runpy, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            signal.raise_signal(number)

signal.signal(signal.SIGINT, signal.default_int_handler)
module, number = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
sys.meta_path.insert(0, Interrupting())
runpy.run_module("dragoman", run_name="__main__", alter_sys=True)
"""


def dragoman_process(*arguments: str | Path, interrupted_at: str = "", signal_number: int = 0) -> list[str]:
    """Return the command line; the process raises a signal when it imports the module `interrupted_at`, if given."""
    return [sys.executable, "-c", _PROGRAM, interrupted_at, str(int(signal_number)), *map(str, arguments)]
