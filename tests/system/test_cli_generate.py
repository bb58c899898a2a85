"""dragoman generate, and dragoman evaluate with a language model."""

import json
import math
import signal
import subprocess
from pathlib import Path

import pytest

from dragoman import Generator
from dragoman.search.config import ContinuationConfig, SamplingConfig
from tests.support.command_line import dragoman
from tests.support.processes import dragoman_process
from tests.support.small_language import SPEECH, vocabulary, write_language_model


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_language_model(folder / "model", "unigram")
    write_language_model(folder / "recurrent", architecture="recurrent-language")
    (folder / "text.txt").write_text(SPEECH, encoding="utf-8")
    (folder / "empty.txt").write_bytes(b"")
    (folder / "broken.txt").write_bytes(b"one\ntwo \xff\n")
    return folder


def test_the_text_is_that_of_the_generator(
    models: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    options = "--max-tokens 30 --temperature 0.7 --top-k 50 --top-p 0.9 --min-p 0.001".split()
    options += "--repetition-penalty 1.1 --seed 7 --engine torch".split()
    config = ContinuationConfig(
        max_tokens=30,
        sampling=SamplingConfig(temperature=0.7, top_k=50, top_p=0.9, min_p=0.001, seed=7),
        repetition_penalty=1.1,
    )
    generator = Generator.load(models / "model", engine="torch")
    [expected] = generator.generate("ROMEO:\n", config)
    assert dragoman(monkeypatch, "generate", models / "model", "ROMEO:\n", *options) == 0
    assert capfdbinary.readouterr().out.decode() in (expected.text, expected.text + "\n")
    # From a file; two samples, as JSON.
    (models / "prompt.txt").write_bytes(b"ROMEO:\n")
    two = [*options, "--samples", "2"]
    assert dragoman(monkeypatch, "generate", models / "model", "--file", models / "prompt.txt", *two, "--json") == 0
    first, second = map(json.loads, capfdbinary.readouterr().out.splitlines())
    assert first["text"] == expected.text
    assert set(second) == {"text", "tokens", "log_probability", "end"}
    # With a stop string; several texts have headings.
    stop = expected.text[3:5]
    stops = ["--stop", "never", "--stop", stop]
    assert dragoman(monkeypatch, "generate", models / "model", "ROMEO:\n", *two, *stops) == 0
    out = capfdbinary.readouterr().out.decode()
    assert out.startswith("--- 1 of 2 ---\n" + generator.generate("ROMEO:\n", config, stop=[stop])[0].text)
    assert "--- 2 of 2 ---\n" in out


def test_a_prompt_on_standard_input_and_a_reader_that_ends_early(models: Path) -> None:
    command = dragoman_process("generate", models / "recurrent", "--max-tokens", "1000000")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"O Romeo\xff")
        process.stdin.close()
        assert process.stdout.read(1)
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(timeout=60) == 0
    assert errors == b"dragoman: the prompt is not valid UTF-8; undecodable bytes were replaced by U+FFFD\n"


def test_an_interrupt_ends_the_text(models: Path) -> None:
    command = dragoman_process("generate", models / "recurrent", "O", "--max-tokens", "1000000")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (128 + signal.SIGINT, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generate", "{}/model", "x", "--file", "y"], "as an argument or with --file, not both"),
        (["generate", "{}/model", "--file", "{}/missing"], "missing cannot be read: No such file or directory"),
        (["generate", "{}/model", "x", "--beam", "2", "--top-k", "3"], "--top-k is an option of sampling"),
        (["generate", "{}/model", "x", "--length-penalty", "2"], "--length-penalty requires --beam"),
        (["generate", "{}/model", "x", "--stop", ""], "a stop string is empty"),
        (["generate", "{}/model", "x", "--max-tokens", "0"], "max_tokens must lie between 1"),
        (["generate", "{}/recurrent", "x", "--context", "8"], "leave out the context"),
        (["translate", "{}/model"], "is a language model: use dragoman generate, evaluate"),
        (["score", "{}/model", "x.tsv"], "is a language model: use dragoman generate, evaluate"),
        (
            ["evaluate", "{}/model", "{}/text.txt", "--beam", "2", "--metric", "symbols"],
            "--metric, --beam: not",
        ),
        (["evaluate", "{}/model", "{}/text.txt", "--stride", "17"], "stride must lie between 1 and the context of 16"),
        (["evaluate", "{}/model", "{}/empty.txt"], "there is no text in"),
        (["evaluate", "{}/model", "{}/broken.txt"], "broken.txt:2: byte 9 of the file (0xFF) is not UTF-8"),
    ],
)
def test_mistakes_are_reported(
    models: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    assert dragoman(monkeypatch, *(argument.format(models) for argument in arguments)) == 2
    assert message in capsys.readouterr().err


def test_evaluate_prints_the_losses(
    models: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("evaluate", models / "model", models / "text.txt", "--engine", "torch", "--stride", "4")
    assert dragoman(monkeypatch, *arguments, "--json") == 0
    values = json.loads(capsys.readouterr().out)
    assert values["characters"] == values["bytes"] == len(SPEECH)
    assert values["tokens"] == len(vocabulary("unigram").encode([SPEECH])[0]) + 1
    assert values["perplexity"] == pytest.approx(math.exp(values["nats"] / values["tokens"]))
    assert dragoman(monkeypatch, *arguments) == 0
    out = capsys.readouterr().out
    assert f"bits per byte         {values['bits_per_byte']:.4f}" in out
    assert "context 16 tokens, stride 4" in out
    assert dragoman(monkeypatch, "evaluate", models / "recurrent", models / "text.txt") == 0
    assert "context: all of the document" in capsys.readouterr().out
