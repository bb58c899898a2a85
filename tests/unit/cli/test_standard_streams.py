"""Standard streams that are closed, full, of another encoding, or that nobody reads: real processes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import cli
from tests.support.small_translator import write_model

FULL = Path("/dev/full")
LONG = b"the lamp is on " * 40
needs_full = pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")


def shell(redirections: str, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a verb with redirections of a shell, such as 2>&-."""
    command = ["sh", "-c", f'exec "$@" {redirections}', "sh", sys.executable, "-m", "dragoman", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, env=os.environ | environment, timeout=120)


def message(done: subprocess.CompletedProcess[bytes]) -> str:
    """Return the one line on standard error."""
    [line] = done.stderr.decode().splitlines()
    return line


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"), 0, right_to_left=False)


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 lines, every one of which is warned of."""
    path = tmp_path_factory.mktemp("text") / "lines.txt"
    path.write_bytes((LONG + b"\n") * 64)
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("corpus") / "corpus.tsv"
    path.write_text("ein Hund für α\ta dog → \u2028\n", encoding="utf-8")
    return path


@needs_full
@pytest.mark.parametrize("verb", [(), *((name,) for name in cli.VERBS)])
def test_help_into_a_full_disk_is_one_line_and_a_failure(verb: tuple[str, ...]) -> None:
    done = shell("> /dev/full", *verb, "--help")
    assert done.returncode == 1
    assert message(done) == "dragoman: standard output cannot be written: No space left on device"


@pytest.mark.parametrize("redirection", [">&-", pytest.param(">/dev/full", marks=needs_full)])
@pytest.mark.parametrize("verb", ["translate", "corpus stats", "corpus clean"])
def test_output_that_cannot_be_written_is_one_line_and_a_failure(
    model: Path, corpus: Path, verb: str, redirection: str
) -> None:
    arguments = [model, corpus] if verb == "translate" else [corpus]
    done = shell(redirection, *verb.split(), *arguments, "--device=cpu" if verb == "translate" else "--")
    assert done.returncode == 1
    complaint = [line for line in done.stderr.decode().splitlines() if line.startswith("dragoman: standard output")]
    assert len(complaint) == 1
    assert "Exception ignored" not in done.stderr.decode()


@pytest.mark.parametrize("redirection", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_without_standard_error_lines_in_are_lines_out(model: Path, lines: Path, redirection: str) -> None:
    done = shell(redirection, "translate", model, lines, "--device", "cpu", "--beam", "1")
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 64
    assert b"a sentence longer" not in done.stdout


def test_mistakes_and_help_without_standard_error() -> None:
    done = shell("2>&-", "translate", "nowhere", "--beam", "many")
    assert (done.returncode, done.stdout) == (2, b"")
    done = shell("2>&-", "--help")
    assert done.returncode == 0
    assert b"translate" in done.stdout


@pytest.mark.parametrize("arguments", [("corpus", "stats", "-"), ("corpus", "clean", "-")])
def test_a_closed_standard_input_is_named(arguments: tuple[str, ...]) -> None:
    done = shell("<&-", *arguments)
    assert done.returncode == 2
    assert message(done).startswith("dragoman: standard input cannot be read: it is closed")


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
    ids=lambda environment: next(iter(environment.values())),
)
def test_another_encoding_escapes_what_it_lacks(corpus: Path, environment: dict[str, str]) -> None:
    done = shell("", "translate", "--help", **environment)
    assert done.returncode == 0
    assert rb"Length penalty \u03b1" in done.stdout
    done = shell("", "corpus", "stats", corpus, **environment)
    assert done.returncode == 0
    assert rb"\u2192" in done.stdout


def test_translations_are_utf_8_whatever_the_terminal_is(model: Path, tmp_path: Path) -> None:
    (prefix := tmp_path / "prefix.txt").write_bytes("für\n".encode())
    arguments = ("translate", model, prefix, "--prefixes", prefix, "--device", "cpu")
    done = shell("", *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert done.stdout.startswith("für".encode())


def test_examples_of_another_encoding_keep_their_lines(model: Path, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_bytes(
        b'{"source": "the lamp \\u2192\\u2028", "target": "forged\\nBLEU 100 \\u001b[31m"}\n' * 4
    )
    arguments = ("evaluate", model, tmp_path / "test.jsonl", "--examples", "3", "--device", "cpu")
    done = shell("", *arguments, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr.decode()
    output = done.stdout.decode("ascii")
    assert output.count("\nsource       the lamp \\u2192") == 3
    assert output.count("\nreference    forged") == 3
    assert "\nBLEU 100" not in output
    assert "\x1b" not in output


def test_nobody_reads_the_warnings(model: Path, lines: Path) -> None:
    """As in `dragoman translate ... 2>&1 >out | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "dragoman", "translate", str(model), str(lines), "--device", "cpu"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=writing, check=False, timeout=120)
    os.close(writing)
    assert done.returncode == 0
    assert done.stdout.count(b"\n") == 64


# Commands a terminal, forges a message, and is markup for rich.
HOSTILE = "[red]\x1b[31m\ndragoman: all is well\u202e[/nothing]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("translate", "{}"),
        ("translate", "{}", "--{}"),
        ("translate", "model", "--beam", "{}"),
        ("corpus", "stats", "{}/a.tsv"),
        ("corpus", "stats", "{}.docx"),
        ("quantize", "{}", "--out", "{}/small"),
    ],
)
def test_a_name_cannot_command_a_terminal_or_forge_a_message(arguments: tuple[str, ...]) -> None:
    done = shell("", *(argument.format(HOSTILE) for argument in arguments))
    assert done.returncode == 2
    said = done.stderr.decode()
    assert "[red]\\x1b[31m" in said or "--beam" in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert not any(line.startswith("dragoman: all is well") for line in said.splitlines())
