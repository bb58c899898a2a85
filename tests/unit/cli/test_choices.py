"""What options can be, and what they are when not given, comes from the tables and settings of the rooms."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dragoman import cli
from dragoman.cli import choices
from dragoman.cli.evaluate import Evaluate, Score
from dragoman.cli.train import Train
from dragoman.cli.translate import Translate
from dragoman.comparison.studies import STUDIES
from dragoman.evaluation.tasks import TASKS
from dragoman.search.config import DEFAULT_BATCH_TOKENS, SamplingConfig, SearchConfig

VERB = {
    "train": ["train", "corpus.tsv", "--out", "model"],
    "evaluate": ["evaluate", "model", "test.tsv"],
    "translate": ["translate", "model"],
    "compare": ["compare", "corpus.tsv", "--minutes", "1", "--out", "comparison"],
}
TAKEN = [
    *(("train", "model", name) for name in choices.architectures()),
    *(("train", "preset", name) for name in choices.presets()),
    *(("evaluate", "metric", name) for name in TASKS),
    *(("compare", "study", name) for name in STUDIES),
    *((verb, "engine", name) for verb in ("translate", "evaluate") for name in get_args(choices.EngineName)),
    *((verb, "precision", name) for verb in ("translate", "evaluate") for name in get_args(choices.PrecisionName)),
]


@pytest.mark.parametrize(("verb", "option", "name"), TAKEN)
def test_an_option_takes_every_name_of_its_table(verb: str, option: str, name: str) -> None:
    read = cli.read_arguments([*VERB[verb], f"--{option}", name])
    assert type(read) is cli.VERBS[verb]
    assert getattr(read, option) == name


@pytest.mark.parametrize(("verb", "option"), sorted({(verb, option) for verb, option, _ in TAKEN}))
def test_an_option_takes_no_other_name_and_says_which_there_are(
    verb: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.read_arguments([*VERB[verb], f"--{option}", "nonsense"])
    assert stopped.value.code == 2
    errors = capsys.readouterr().err
    assert "invalid choice 'nonsense'" in errors
    for _, _, name in (taken for taken in TAKEN if taken[:2] == (verb, option)):
        assert f"'{name}'" in errors


def test_presets_of_several_architectures_are_named_once() -> None:
    assert choices.presets()[:2] == ["tiny", "small"]
    assert len(set(choices.presets())) == len(choices.presets())


def test_architecture_and_preset_are_left_to_the_run_file_when_not_given() -> None:
    read = cli.read_arguments(VERB["train"])
    assert isinstance(read, Train)
    assert (read.model, read.preset, read.settings()) == (None, None, {})


@pytest.mark.parametrize(
    ("text", "training"),
    [
        ("[training]\nsteps = 5\nseed = 3\n", {"seed": 3, "minutes": 2.0}),
        ("", {"minutes": 2.0}),
        # Not a table: left for `train` to report.
        ("training = 5\n", 5),
    ],
)
def test_minutes_replace_the_budget_of_the_run_file(text: str, training: object, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(text)
    read = cli.read_arguments([*VERB["train"], "--minutes", "2", "--config", str(tmp_path / "run.toml")])
    assert isinstance(read, Train)
    assert read.settings() == {"training": training}


@pytest.mark.parametrize("verb", [Translate, Evaluate, Score])
def test_what_is_not_given_is_what_the_settings_of_the_search_say(verb: type) -> None:
    defaults = {
        field.name: field.default for cls in (SearchConfig, SamplingConfig) for field in dataclasses.fields(cls)
    } | {"batch_tokens": DEFAULT_BATCH_TOKENS}
    shared = [field for field in dataclasses.fields(verb) if field.name in defaults]
    assert "length_penalty" in {field.name for field in shared}
    for field in shared:
        assert field.default == defaults[field.name]


def test_help_needs_nothing_heavy() -> None:
    script = """
import contextlib, io, sys
from dragoman import cli
for arguments in ([], *([name] for name in cli.VERBS)):
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        cli.read_arguments([*arguments, "--help"])
    assert "usage: dragoman" in said.getvalue()
print(*sys.modules.keys() & {"torch", "numpy", "matplotlib", "sacrebleu", "pyarrow", "sentencepiece"})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
