"""Every recipe is a valid run file, and its comments contain a measured result."""

from pathlib import Path

import pytest

from dragoman.run.config import read_settings, resolve_without_corpus
from dragoman.settings import load_toml
from tests.support.paths import REPOSITORY

RECIPES = sorted((REPOSITORY / "recipes").glob("*.toml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_is_accepted_and_states_a_result(path: Path) -> None:
    resolve_without_corpus(read_settings(load_toml(path)))
    comments = [line for line in path.read_text().splitlines() if line.startswith("#")]
    assert any(line.startswith("# Reached: ") for line in comments)


def test_there_are_recipes() -> None:
    assert {"small-corpus", "medium-corpus", "wmt14-base", "wmt14-big"} <= {path.stem for path in RECIPES}
