"""Allowed values and defaults of options are those of the tables and settings; help is complete and quick."""

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dragoman import cli
from dragoman.cli import choices
from dragoman.cli.examples import examples_text
from dragoman.cli.train import Train
from dragoman.comparison.studies import STUDIES
from dragoman.errors import SettingsError
from dragoman.evaluation.tasks import TASKS
from dragoman.models.registry import ARCHITECTURES
from dragoman.run.text_config import read_text_settings
from dragoman.search.config import DEFAULT_BATCH_TOKENS, ContinuationConfig, SamplingConfig, SearchConfig

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


def options_of(verb: object) -> dict[str, object]:
    """Return the options by name, those in groups too."""
    assert dataclasses.is_dataclass(verb)
    values = {field.name: getattr(verb, field.name) for field in dataclasses.fields(verb)}
    groups = {name: value for name, value in values.items() if dataclasses.is_dataclass(value)}
    options = {name: value for name, value in values.items() if name not in groups}
    for group in groups.values():
        options |= options_of(group)
    return options


@pytest.mark.parametrize(("verb", "option", "name"), TAKEN)
def test_an_option_accepts_every_name_of_its_table(verb: str, option: str, name: str) -> None:
    read = cli.read_arguments([*VERB[verb], f"--{option}", name])
    assert type(read) is cli.VERBS[verb]
    assert options_of(read)[option] == name


@pytest.mark.parametrize(("verb", "option"), sorted({(verb, option) for verb, option, _ in TAKEN}))
def test_an_option_rejects_other_names_and_lists_the_allowed_ones(
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


def test_train_offers_the_architectures_of_its_tasks_only() -> None:
    offered = choices.architectures()
    assert {"transformer", "language", "masked", "classifier", "tagger"} <= set(offered)
    assert offered == [name for name, entry in ARCHITECTURES.items() if entry.kind not in ("image-classifier", "gan")]
    with pytest.raises(SettingsError, match="architecture 'vision' is not one of task 'language'"):
        read_text_settings("language", {"architecture": "vision"})


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


@pytest.mark.parametrize(
    "verb",
    [["translate", "model"], ["generate", "model"], ["evaluate", "model", "x.tsv"], ["score", "model", "x.tsv"]],
)
def test_defaults_are_those_of_the_search_settings(verb: list[str]) -> None:
    defaults = {
        field.name: field.default for cls in (SearchConfig, SamplingConfig) for field in dataclasses.fields(cls)
    } | {"batch_tokens": DEFAULT_BATCH_TOKENS}
    if verb[0] == "generate":
        defaults |= {field.name: field.default for field in dataclasses.fields(ContinuationConfig)}
    options = options_of(cli.read_arguments(verb))
    shared = options.keys() & defaults.keys()
    assert "length_penalty" in shared
    for name in shared:
        assert options[name] == defaults[name]


HELP = [
    [],
    *([name] for name in cli.VERBS),
    *([verb, name] for verb, actions in cli.ACTIONS.items() for name in actions),
]


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_names_its_arguments_and_ends_with_two_examples(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.read_arguments([*arguments, "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "{None}" not in text
    assert "None" not in text
    usage = text.splitlines()[0]
    assert not {"PATH", "STR", "INT"} & set(usage.split())
    purposes, commands = zip(*(line.split(maxsplit=1) for line in text.splitlines()[-4:]), strict=True)
    assert purposes == ("#", "dragoman", "#", "dragoman")
    assert text.splitlines()[-5] == "Examples:"
    for command in commands[1::2]:
        words = shlex.split(command.partition("|")[0].partition(">")[0].partition("<")[0])
        verb = cli.read_arguments(words)
        assert not arguments or type(verb) is cli.VERBS[words[0]]


@pytest.mark.parametrize("arguments", [["nonsense", "--help"], ["--device", "cpu", "--help"], ["--help", "train"]])
def test_help_without_a_verb_lists_the_verbs(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.read_arguments(arguments)
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert "subcommands" in text
    assert text.endswith(examples_text(cli.EXAMPLES) + "\n")


@pytest.mark.parametrize(
    ("verb", "groups"),
    [
        ("translate", ["search", "sampling", "engine", "long-line", "output"]),
        ("generate", ["output", "sampling", "search", "engine"]),
        ("evaluate", ["metric", "search", "engine", "long-line", "window", "output"]),
        ("attention", ["page", "picture", "report"]),
        ("train", ["language", "run-file"]),
        ("compare", ["language", "run-file"]),
    ],
)
def test_options_are_shown_in_groups(verb: str, groups: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.read_arguments([verb, "--help"])
    assert re.findall(r"^\W*([a-z-]+) options\b", capsys.readouterr().out, re.MULTILINE) == groups


def test_help_needs_nothing_heavy() -> None:
    script = """
import contextlib, io, sys
from dragoman import cli
for arguments in ([], *([name] for name in cli.VERBS)):
    with contextlib.redirect_stdout(io.StringIO()) as output, contextlib.suppress(SystemExit):
        cli.read_arguments([*arguments, "--help"])
    assert "usage: dragoman" in output.getvalue()
print(*sys.modules.keys() & {"torch", "numpy", "matplotlib", "sacrebleu", "pyarrow", "sentencepiece"})
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
