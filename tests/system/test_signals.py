"""SIGINT and SIGTERM while the program starts, runs a command, trains, and ends."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.models.seq2seq import Seq2Seq
from dragoman.run import train
from dragoman.run.validator import Validator
from dragoman.settings import merge
from dragoman.training.checkpoint import list_steps
from dragoman.training.progress import TrainingResult
from dragoman.training.stopping import TrainingStopped
from dragoman.training.validation import Validation
from tests.support.number_words import split_numbers
from tests.support.processes import dragoman_process
from tests.support.runs import SHORT_RUN, write_tsv

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)


@BOTH
@pytest.mark.parametrize("module", ["dragoman.cli", "tyro", "dragoman.cli.train", "dragoman.data.statistics"])
def test_a_signal_during_an_import_ends_the_program_silently(number: signal.Signals, module: str) -> None:
    command = dragoman_process("corpus", "stats", "-", interrupted_at=module, signal_number=number)
    process = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert (process.returncode, process.stdout, process.stderr) == (128 + number, b"", b"")


@BOTH
def test_a_signal_while_standard_input_is_read(number: signal.Signals) -> None:
    command = dragoman_process("corpus", "stats", "-")
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, **pipes) as process:
        assert process.stdin is not None
        # More than the capacity of a pipe: after the write, the program is reading.
        process.stdin.write(b"a dog\tein Hund\n" * 10_000)
        process.stdin.flush()
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (128 + number, b"", b"")


@BOTH
def test_a_signal_while_the_output_is_not_read(number: signal.Signals, tmp_path: Path) -> None:
    """The program is blocked in a write; unwritten output must not keep it from ending."""
    corpus = tmp_path / "corpus.tsv"
    corpus.write_bytes(b"".join(b"dog %d\tHund %d\n" % (line, line) for line in range(20_000)))
    command = dragoman_process("corpus", "clean", corpus)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"d"
        time.sleep(0.3)
        process.send_signal(number)
        process.wait(timeout=60)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (128 + number, b"")


# Training.


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tsv(tmp_path_factory.mktemp("corpus") / "numbers.tsv", split_numbers()[0][:400]))


@pytest.fixture(scope="module")
def whole(corpus: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model directory of an uninterrupted run."""
    out = tmp_path_factory.mktemp("whole") / "model"
    run(corpus, out)
    return out


SETTINGS = merge(SHORT_RUN, {"training": {"average_last": 2, "ema_decay": 0.9}})


def run(corpus: str, out: Path) -> TrainingResult:
    return train([corpus], out, settings=SETTINGS)


def signal_in_validation(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Raise SIGTERM during the `number`-th validation from now."""
    validate: Callable[[Validator, Seq2Seq], Validation] = Validator.__call__
    calls = 0

    def signalled(self: Validator, model: Seq2Seq) -> Validation:
        nonlocal calls
        calls += 1
        validation = validate(self, model)
        if calls == number:
            signal.raise_signal(signal.SIGTERM)
        return validation

    monkeypatch.setattr(Validator, "__call__", signalled)


@pytest.mark.parametrize(("validation", "step"), [(1, 4), (3, 12), (4, 12)], ids=["first", "last", "of the average"])
def test_a_signal_during_a_validation_stops_immediately_and_a_resumed_run_is_identical(
    corpus: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation: int, step: int
) -> None:
    out = tmp_path / "model"
    with monkeypatch.context() as patch:
        signal_in_validation(patch, validation)
        with pytest.raises(TrainingStopped) as stopped:
            run(corpus, out)
    assert stopped.value.signal_number == signal.SIGTERM
    assert list_steps(out / "run/checkpoints")[-1] == step
    run(corpus, out)
    for name in ("model.safetensors", "metrics.json", "run/checkpoints/step-00000012/model.safetensors"):
        assert (whole / name).read_bytes() == (out / name).read_bytes(), name


@pytest.mark.parametrize(
    ("number", "module"),
    [(signal.SIGINT, "torch"), (signal.SIGTERM, "torch"), (signal.SIGINT, "dragoman.training.curves")],
)
def test_a_signal_outside_the_training_loop(corpus: str, tmp_path: Path, number: signal.Signals, module: str) -> None:
    """While torch is imported, nothing has been written; while the curves are drawn, everything has been saved."""
    out = tmp_path / "model"
    options = ["--preset=tiny", "--set=tokenizer.vocabulary_size=400", "--set=training.steps=2"]
    options += ["--set=training.validations=1", "--set=data.validation_pairs=4"]
    command = dragoman_process("train", corpus, "--out", out, *options, interrupted_at=module, signal_number=number)
    process = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert process.returncode == 128 + number
    assert b"Traceback" not in process.stderr
    assert out.exists() == (module != "torch")
    if module != "torch":
        assert list_steps(out / "run/checkpoints") == [0, 2]
        assert not list(out.rglob(".tmp-dragoman-*"))
