"""Every recipe is a valid run file whose header has its result and commands that the command line accepts."""

import re
import shlex
from pathlib import Path

import pytest

from dragoman import cli
from dragoman.cli.evaluate import Evaluate
from dragoman.cli.train import Train
from dragoman.run.config import read_settings, resolve_without_corpus
from dragoman.run.tasks.table import DEFAULT_TASK, task_named
from dragoman.settings import load_toml
from tests.support.paths import REPOSITORY

RECIPES = sorted((REPOSITORY / "recipes").glob("*.toml"))


def header(path: Path) -> str:
    """Return the comment at the top of a recipe."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return "\n".join(line.removeprefix("#") for line in lines if line.startswith("#"))


def commands(path: Path) -> list[list[str]]:
    """Return the arguments of each `dragoman` command in the header."""
    joined = re.sub(r"\\\n\s*", "", header(path))
    lines = re.findall(r"^ +dragoman (.+?)(?:;.*| &| +#.*)?$", joined, flags=re.MULTILINE)
    return [shlex.split(line) for line in lines]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_accepted_and_states_a_result(path: Path) -> None:
    settings = load_toml(path)
    task_named(settings.get("task", DEFAULT_TASK)).check_settings(settings)
    assert re.search(r"^ Reached: ", header(path), flags=re.MULTILINE)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_commands_of_a_recipe_are_accepted(path: Path) -> None:
    verbs = [cli.read_arguments(arguments) for arguments in commands(path)]
    training = [verb for verb in verbs if isinstance(verb, Train)]
    assert any(str(verb.run_file.config) == f"recipes/{path.name}" for verb in training)


@pytest.mark.parametrize("name", ["wmt14-base", "wmt14-big"])
def test_a_model_of_the_paper_is_evaluated_and_trained_as_in_the_paper(name: str) -> None:
    path = REPOSITORY / "recipes" / f"{name}.toml"
    [evaluation] = [
        verb for verb in (cli.read_arguments(arguments) for arguments in commands(path)) if isinstance(verb, Evaluate)
    ]
    # Section 6.1.
    assert (evaluation.search.beam, evaluation.search.length_penalty) == (4, 0.6)
    run = resolve_without_corpus(read_settings(load_toml(path)))
    # Section 5.1: about 25,000 tokens on each side for an update. The recipe bounds them, padding included.
    assert run.batching.batch_tokens * run.training.accumulate == 25_000


def test_the_table_of_recipes_has_every_recipe() -> None:
    table = (REPOSITORY / "recipes/README.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w[\w-]*)\.toml`", table, flags=re.MULTILINE)
    assert {path.stem for path in RECIPES} == set(re.findall(r"^\| `([\w-]+)\.toml`", table, flags=re.MULTILINE))
