"""What the documentation shows works: commands are accepted, Python runs, files and make targets exist."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli import VERBS, read_arguments
from dragoman.cli.compare import Compare
from dragoman.cli.train import Train
from dragoman.run.config import read_settings
from dragoman.run.labelled_config import LABELLED_CONFIGS, read_labelled_settings
from dragoman.run.tasks.table import DEFAULT_TASK
from dragoman.run.text_config import read_text_settings
from tests.support.number_words import split_numbers
from tests.support.paths import REPOSITORY
from tests.support.runs import write_tsv
from tests.support.small_language import write_language_model
from tests.support.small_translator import write_model

# Not the changelog and the history, which describe earlier versions.
PAGES = [
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/RESULTS.md", "recipes/README.md")),
    *sorted(path for path in (REPOSITORY / "docs").rglob("*.md") if path.name != "history.md"),
]
# Words in capitals that stand for a value of an option.
PLACEHOLDERS = {"MODEL": "transformer", "RATE": "0.001"}
FENCED = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"(?:^(?: {4}).*\n)+", re.MULTILINE)
NAMES = [str(path.relative_to(REPOSITORY)) for path in PAGES]


def command_lines(text: str) -> Iterator[str]:
    """Yield the lines of code blocks, continued lines as one."""
    blocks = [match["code"] for match in FENCED.finditer(text) if match["language"] in ("", "sh", "bash")]
    blocks += INDENTED.findall(FENCED.sub("", text))
    for block in blocks:
        yield from (line.strip() for line in re.sub(r"\\\n", " ", block).splitlines())


def dragoman_commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of each call of dragoman."""
    for line in command_lines(text):
        if not re.search(r"(?:^|[|;&/ ])dragoman ", line) or "..." in line or "…" in line:
            continue
        lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars=True)
        lexer.commenters = "#"
        lexer.whitespace_split = True
        commands: list[list[str]] = [[]]
        for word in lexer:
            if set(word) <= set("|;&<>"):
                commands.append([])
            else:
                commands[-1].append(word)
        for words in commands:
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if words and words[0].removeprefix(".venv/bin/") == "dragoman" and words[1:]:
                yield [
                    re.sub(r"\b[A-Z]+\b", lambda word: PLACEHOLDERS.get(word[0], word[0]), word) for word in words[1:]
                ]


@pytest.mark.parametrize("name", NAMES)
def test_commands_are_accepted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    for arguments in dragoman_commands((REPOSITORY / name).read_text(encoding="utf-8")):
        if "--help" in arguments or arguments == ["--version"]:
            continue
        try:
            verb = read_arguments(arguments)
        except SystemExit:
            pytest.fail(f"{name}: dragoman {shlex.join(arguments)}")
        settings = verb.settings() if isinstance(verb, Train | Compare) else None
        if settings is None:
            continue
        task = settings.get("task", DEFAULT_TASK)
        if task == DEFAULT_TASK:
            # The model to start from, which is read with the settings, is only an example.
            read_settings({key: value for key, value in settings.items() if key != "from_model"})
        elif task in LABELLED_CONFIGS:
            read_labelled_settings(task, settings)
        else:
            read_text_settings(task, settings)


def test_commands_are_found() -> None:
    indented = "    A=1 dragoman train x.tsv \\\n        --out m  # comment\n"
    text = f"Run it:\n\n{indented}\n```sh\ncat f | dragoman doctor > out\n```\n"
    assert list(dragoman_commands(text)) == [["doctor"], ["train", "x.tsv", "--out", "m"]]
    every = [words for path in PAGES for words in dragoman_commands(path.read_text(encoding="utf-8"))]
    assert len(every) > 40
    assert {words[0] for words in every} == set(VERBS)


@pytest.mark.parametrize("name", NAMES)
def test_options_files_and_targets_in_prose_exist(name: str) -> None:
    text = (REPOSITORY / name).read_text(encoding="utf-8")
    for verb in re.findall(r"`dragoman ([a-z]+)[^`]*`", text):
        assert verb in VERBS, verb
    for path in re.findall(r"(?:\b(?:benchmarks|recipes|docs|tests)/[\w/-]+\.(?:py|toml|md))", text):
        if "NAME" in path:
            continue
        folders = (REPOSITORY, (REPOSITORY / name).parent)
        assert any((folder / path).is_file() for folder in folders), path
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    code = [*re.findall(r"`([^`\n]+)`", text), *command_lines(text)]
    for target in (found[1] for line in code if (found := re.match(r"(?:\$ )?make ([a-z]+)", line))):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_python_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training, validation, test = split_numbers()
    write_model(tmp_path / "models/mine", 0, right_to_left=False)
    write_tsv(tmp_path / "train.tsv", [*training[:300], *validation[:20]])
    write_tsv(tmp_path / "test.tsv", test[:4])
    (tmp_path / "letter.txt").write_text("the lamp is on.\nthe door is open.\n")
    monkeypatch.chdir(tmp_path)
    guide = (REPOSITORY / "docs/guides/translate.md").read_text(encoding="utf-8")
    blocks = [match["code"] for match in FENCED.finditer(guide) if match["language"] == "python"]
    assert len(blocks) > 5
    names: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "docs/guides/translate.md", "exec"), names)
    assert len((tmp_path / "letter.de.txt").read_text(encoding="utf-8").splitlines()) == 2
    assert (tmp_path / "models/small/config.json").is_file()


def test_python_of_the_guide_to_language_models_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_language_model(tmp_path / "models/book")
    monkeypatch.chdir(tmp_path)
    guide = (REPOSITORY / "docs/guides/language-models.md").read_text(encoding="utf-8")
    [block] = [match["code"] for match in FENCED.finditer(guide) if match["language"] == "python"]
    exec(compile(block, "docs/guides/language-models.md", "exec"), {})


def test_decision_records_are_short_and_listed() -> None:
    folder = REPOSITORY / "docs/decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    records = sorted(folder.glob("[0-9]*.md"))
    assert [int(path.name[:4]) for path in records] == list(range(1, len(records) + 1))
    for path in records:
        lines = path.read_text(encoding="utf-8").splitlines()
        title = lines[0].removeprefix("# ")
        assert title.startswith(f"{path.name[:4]}. "), path
        assert [line for line in lines if line.startswith("## ")] == ["## Context", "## Decision", "## Consequences"]
        assert len(lines) <= 25, path
        assert f"[{title}]({path.name})" in index
