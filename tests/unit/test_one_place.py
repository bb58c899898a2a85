"""What a person adds most often takes one file and one line of a table: done here on a scratch copy of the package."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dragoman

PACKAGE = Path(dragoman.__file__).parent


class Scratch:
    """A copy of the package to add things to, and to run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(PACKAGE, folder / "dragoman", ignore=shutil.ignore_patterns("__pycache__"))

    def add(self, path: str, text: str) -> None:
        """Write a new file."""
        file = self.folder / "dragoman" / path
        assert not file.exists()
        file.write_text(text)

    def add_line(self, path: str, line: str, *, after: str) -> None:
        """Add a line to a file, after the only one that says `after`."""
        self.replace(path, after, f"{after}\n{line}")

    def replace(self, path: str, old: str, new: str) -> None:
        """Change the only place of a file that says `old`."""
        file = self.folder / "dragoman" / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1, (path, old)
        file.write_text(text.replace(old, new), encoding="utf-8")

    def run(self, *arguments: str) -> str:
        """Run the command line of the copy; return what it prints."""
        environment = os.environ | {"PYTHONPATH": str(self.folder), "COLUMNS": "200"}
        command = [sys.executable, "-m", "dragoman", *arguments]
        done = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    """A copy of the package."""
    return Scratch(tmp_path)


GREET = '''
"""dragoman greet"""

from dataclasses import dataclass

from tyro.conf import Positional


@dataclass(frozen=True, kw_only=True)
class Greet:
    """Say hello to somebody."""

    whom: Positional[str]
    """Whom to greet."""
    loudly: bool = False
    """In capitals."""

    def run(self) -> None:
        """Print a greeting."""
        text = f"hello {self.whom}"
        print(text.upper() if self.loudly else text)
'''


def test_a_verb_is_a_file_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add("cli/greet.py", GREET)
    scratch.add_line("cli/__init__.py", '    "greet": Greet,', after='    "doctor": Doctor,')
    # The table names the class, which a line above it imports.
    scratch.add_line(
        "cli/__init__.py",
        "from dragoman.cli.greet import Greet",
        after="from dragoman.cli.evaluate import Evaluate, Score",
    )
    assert scratch.run("greet", "world", "--loudly") == "HELLO WORLD\n"
    assert "Say hello to somebody." in scratch.run("--help").splitlines()[-2]


LENGTHS = '''
"""How long the outputs are, and nothing else."""

from dataclasses import asdict, dataclass

from dragoman.evaluation.task import Task


@dataclass(frozen=True)
class LengthScores:
    """Characters of all outputs."""

    characters: int

    def rows(self):
        return [("characters", str(self.characters), "of all outputs")]

    def details(self):
        return ""

    def to_json(self):
        return asdict(self)


class Lengths(Task):
    """Anything that has a length."""

    def score(self, outputs, name):
        return LengthScores(sum(map(len, outputs)))

    def compare(self, baseline, name, outputs):
        raise NotImplementedError
'''


def test_a_kind_of_score_is_a_file_and_a_line_of_the_table(scratch: Scratch) -> None:
    scratch.add("evaluation/lengths.py", LENGTHS)
    scratch.add_line("evaluation/tasks.py", '    "lengths": Lengths,', after='    "summary": Summaries,')
    scratch.add_line(
        "evaluation/tasks.py",
        "from dragoman.evaluation.lengths import Lengths",
        after="from dragoman.errors import SettingsError",
    )
    assert "--metric {translation,symbols,summary,lengths}" in scratch.run("evaluate", "--help")


def test_a_study_is_a_line_of_the_table(scratch: Scratch) -> None:
    study = '    "widths": Study(question="How wide?", variants=(Variant(name="64", model={"d_model": 64}),)),'
    scratch.add_line("comparison/studies.py", study, after="STUDIES: dict[str, Study] = {")
    assert "--study {widths,architecture," in scratch.run("compare", "--help")


def test_a_default_of_the_search_is_written_once(scratch: Scratch) -> None:
    scratch.replace("search/config.py", "    beam: int = 4", "    beam: int = 7")
    for verb in ("translate", "evaluate"):
        assert "(default: 7)" in next(line for line in scratch.run(verb, "--help").splitlines() if "--beam" in line)
