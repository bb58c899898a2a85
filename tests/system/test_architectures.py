"""Every architecture on the command line: training, translation, evaluation and comparison."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.comparison.compare import compare
from dragoman.comparison.trial import load_result
from dragoman.errors import UserError
from dragoman.run import train
from dragoman.search.config import SearchConfig
from dragoman.settings import merge
from dragoman.translation.translator import Translator
from tests.support.command_line import dragoman
from tests.support.number_words import split_numbers
from tests.support.processes import dragoman_process
from tests.support.runs import write_tsv

LEARNING: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 400},
    "model": {"dropout": 0.0},
    "schedule": {"kind": "cosine", "peak_learning_rate": 4e-3, "warmup": 100},
    "training": {"steps": 600, "validations": 1, "precision": "fp32"},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "model"),
    [
        ("recurrent", {}),
        ("recurrent", {"cell": "gru", "attention": "additive", "bidirectional": False}),
        ("convolutional", {}),
        ("universal", {"norm_placement": "pre"}),
        ("universal", {"norm_placement": "pre", "halting": "adaptive"}),
    ],
)
def test_every_architecture_learns_to_translate_unseen_numbers(
    architecture: str, model: dict[str, Any], tmp_path: Path
) -> None:
    training, validation, test = split_numbers()
    settings = merge(LEARNING, {"architecture": architecture, "model": model})
    train(
        [str(write_tsv(tmp_path / "train.tsv", training))],
        tmp_path / "model",
        validation=str(write_tsv(tmp_path / "valid.tsv", validation)),
        settings=settings,
    )
    translator = Translator.load(tmp_path / "model", device="cpu")
    assert translator.engine.startswith("torch")
    test = test[:300]
    translations = translator.translate([pair.source for pair in test], search=SearchConfig(beam=4))
    right = sum(translation.text == pair.target for translation, pair in zip(translations, test, strict=True))
    assert right >= 0.9 * len(test), f"only {right} of {len(test)} unseen numbers are right"


@pytest.mark.slow
def test_models_of_both_directions_together_are_better_than_each_alone(tmp_path: Path) -> None:
    training, validation, test = split_numbers()
    for name, right_to_left in (("forward", False), ("backward", True)):
        train(
            [str(write_tsv(tmp_path / "train.tsv", training))],
            tmp_path / name,
            validation=str(write_tsv(tmp_path / "valid.tsv", validation)),
            settings=merge(
                LEARNING,
                {
                    "architecture": "recurrent",
                    "tokenizer": {"right_to_left": right_to_left},
                    "training": {"steps": 250},
                },
            ),
        )

    def right(*names: str) -> int:
        translator = Translator.load(*(tmp_path / name for name in names), device="cpu")
        translations = translator.translate([pair.source for pair in test[:500]])
        return sum(translation.text == pair.target for translation, pair in zip(translations, test, strict=False))

    assert "from the last token to the first" in (tmp_path / "backward" / "README.md").read_text()
    assert "from the last token" not in (tmp_path / "forward" / "README.md").read_text()
    forward, backward, both = right("forward"), right("backward"), right("forward", "backward")
    assert both > max(forward, backward), (forward, backward, both)


FEW: dict[str, Any] = {
    "preset": "tiny",
    "tokenizer": {"vocabulary_size": 400},
    "batching": {"batch_tokens": 256, "window": 200},
    "schedule": {"kind": "linear", "peak_learning_rate": 1e-3, "warmup": 0.1},
    "training": {"optimizer": "adam", "validations": 2},
}


@pytest.fixture
def few(tmp_path: Path) -> tuple[str, str, str]:
    training, validation, test = split_numbers()
    parts = {"train": training[:300], "valid": validation[:10], "test": test[:10]}
    paths = [write_tsv(tmp_path / f"{name}.tsv", pairs) for name, pairs in parts.items()]
    return str(paths[0]), str(paths[1]), str(paths[2])


@pytest.mark.parametrize("architecture", ["recurrent", "convolutional", "universal", "decoder-only"])
def test_the_commands_support_every_architecture(
    architecture: str, few: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    training, validation, test = few
    model = tmp_path / "model"
    settings = ["--set=training.steps=20", "--set=training.validations=1", "--set=tokenizer.vocabulary_size=400"]
    command = ("train", training, "--validation", validation, "--out", model, "--model", architecture)
    assert dragoman(monkeypatch, *command, "--preset", "tiny", *settings) == 0
    assert architecture in (model / "README.md").read_text()
    assert dragoman(monkeypatch, "evaluate", model, test) == 0
    assert "BLEU" in capfd.readouterr().out
    # After 20 updates the translations are poor, but there is one for each line.
    (tmp_path / "lines").write_text("seven\n\ntwenty-one\n")
    assert dragoman(monkeypatch, "translate", model, tmp_path / "lines", "--beam", "3") == 0
    assert capfd.readouterr().out.count("\n") == 3
    assert dragoman(monkeypatch, "quantize", model, "--out", tmp_path / "small") == 0
    assert dragoman(monkeypatch, "evaluate", tmp_path / "small", test) == 0
    capfd.readouterr()
    assert dragoman(monkeypatch, "translate", model, tmp_path / "lines", "--engine", "native") == 2
    assert f"its architecture is {architecture}" in capfd.readouterr().err


def test_a_preset_that_an_architecture_lacks_is_rejected(
    few: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    command = ("train", few[0], "--out", tmp_path / "model", "--model", "recurrent", "--preset", "modern")
    assert dragoman(monkeypatch, *command) == 2
    assert "recurrent has no preset 'modern': choose one of tiny, small, base" in capfd.readouterr().err
    assert not (tmp_path / "model").exists()


def test_a_comparison_is_resumed_after_an_interruption(few: tuple[str, str, str], tmp_path: Path) -> None:
    """Ctrl-C interrupts the second trial; finished trials are not changed, and another request is rejected."""
    training, validation, test = few
    out = tmp_path / "study"
    settings = [f"--set=preset={FEW['preset']}"] + [
        f"--set={table}.{key}={value}"
        for table in ("tokenizer", "batching", "schedule", "training")
        for key, value in FEW[table].items()
    ]
    command = dragoman_process("compare", training, "--validation", validation, "--test", test)
    command += ["--study", "norm", "--minutes", "0.03", "--out", str(out), *settings]
    first = out / "time" / "pre-norm-layer" / "comparison.json"
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "post-norm, layer" in line:
                break
        # As from a terminal, also the process of the trial receives the signal; it is importing torch at this time.
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.communicate(timeout=120)[1]
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in errors
    assert "repeat the command to resume" in errors
    kept = first.read_bytes()
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    assert first.read_bytes() == kept
    assert finished.stdout.count("| pre-norm, batch |") == 3
    assert (out / "comparison.html").exists()
    slowest = min(load_result(path).updates for path in (out / "time").iterdir())  # type: ignore[union-attr]
    assert {load_result(path).updates for path in (out / "tokens").iterdir()} == {slowest}  # type: ignore[union-attr]
    with pytest.raises(UserError, match="another comparison"):
        compare([training], out, study="norm", minutes=0.5, validation=validation, test=test, settings=FEW)
