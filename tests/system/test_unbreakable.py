"""Robustness of training runs: kills, full disks, damaged files, values that are not finite, too little memory."""

import errno
import json
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dragoman import files as files_module
from dragoman.data.batching import Batch
from dragoman.errors import UserError
from dragoman.models.seq2seq import Seq2Seq
from dragoman.run import train
from dragoman.settings import merge
from dragoman.training import checkpoint as checkpoint_module
from dragoman.training.checkpoint import latest_checkpoint, list_steps
from dragoman.training.loop import Trainer
from dragoman.training.objective import BatchLoss
from dragoman.training.progress import TrainingResult
from dragoman.training.recovery import MAX_ROLLBACKS
from dragoman.training.translation_objective import TranslationLosses
from dragoman.translation.translator import Translator
from tests.support.number_words import split_numbers
from tests.support.runs import SHORT_RUN, train_with


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    training, _, _ = split_numbers()
    path = tmp_path / "numbers.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in training[:400]))
    return str(path)


def run(corpus: str, out: Path) -> TrainingResult:
    return train([corpus], out, settings=SHORT_RUN)


def error_of_run(corpus: str, out: Path) -> UserError | None:
    try:
        run(corpus, out)
    except UserError as error:
        return error
    return None


def weights(out: Path) -> dict[str, Tensor]:
    return load_file(out / "run/checkpoints/step-00000012/model.safetensors")


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(tensor, b[name]) for name, tensor in a.items())


KILLED = """
import os, signal, sys, threading
from pathlib import Path
from dragoman.run import train
from tests.support.runs import SHORT_RUN
corpus, out, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
if seconds:
    threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()
train([corpus], out, settings=SHORT_RUN)
"""


def test_a_run_killed_at_random_times_ends_like_an_uninterrupted_one(corpus: str, tmp_path: Path) -> None:
    """A short version of benchmarks/unbreakable.py."""
    start = time.monotonic()
    run(corpus, tmp_path / "whole")
    seconds = time.monotonic() - start
    generator, kills = random.Random(1), 0
    for _ in range(5):
        arguments = [corpus, str(tmp_path / "broken"), str(generator.uniform(0.01, seconds))]
        done = subprocess.run([sys.executable, "-c", KILLED, *arguments], capture_output=True, check=False)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        kills += done.returncode != 0
    assert kills
    run(corpus, tmp_path / "broken")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "broken"))
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "broken/model.safetensors").read_bytes()


def test_a_disk_that_is_full_at_any_write_destroys_nothing(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "whole")
    left, write_synced = [0], files_module.write_synced

    def write_until_full(path: Path, data: bytes) -> None:
        left[0] -= 1
        if left[0] == 0:
            path.write_bytes(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write_synced(path, data)

    monkeypatch.setattr(files_module, "write_synced", write_until_full)
    monkeypatch.setattr(checkpoint_module, "write_synced", write_until_full)
    out, failures = tmp_path / "full", 0
    # Each attempt makes at least one more write than the previous one.
    for number in range(1, 100):
        left[0] = number
        steps = list_steps(out / "run/checkpoints") if out.exists() else []
        error = error_of_run(corpus, out)
        if error is None:
            break
        failures += 1
        assert "full" in str(error)
        assert "free some space" in str(error)
        if steps:
            newest = latest_checkpoint(out / "run/checkpoints")
            assert newest is not None
            assert newest.step >= steps[-1]
    assert failures > 10
    assert same(weights(tmp_path / "whole"), weights(out))


def test_no_files_are_left_if_the_disk_is_full_from_the_beginning(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pyarrow.ipc.new_file", full)
    with pytest.raises(UserError, match="is full"):
        run(corpus, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_real_full_disk_ends_with_a_clear_error(corpus: str, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        command = [sys.executable, "-m", "dragoman", "train", corpus, "--out", str(disk / "model"), "--preset", "tiny"]
        command += ["--set", "training.steps=4", "--set", "tokenizer.vocabulary_size=400"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert "full" in done.stderr
        assert "free some space" in done.stderr
        assert "Traceback" not in done.stderr
        subprocess.run(["mount", "-o", "remount,size=200m", str(disk)], check=True)
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# Damage


def flipped(data: bytes) -> bytes:
    damaged = bytearray(data)
    damaged[::4096] = bytes(byte ^ 0xFF for byte in damaged[::4096])
    return bytes(damaged)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    directory = tmp_path_factory.mktemp("trained")
    training, _, _ = split_numbers()
    path = directory / "numbers.tsv"
    path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in training[:400]))
    run(str(path), directory / "model")
    return str(path), directory / "model"


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """Count the Python function calls in the block, which measure its work independently of the machine."""
    calls, before = [0], sys.getprofile()

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.model"])
def test_detecting_a_damaged_model_file_is_no_more_work_than_loading(trained: tuple[str, Path], name: str) -> None:
    _, model = trained
    path = model / name
    data = path.read_bytes()
    one_byte = bytearray(data)
    one_byte[len(data) * 3 // 4] ^= 0x10
    truncated = [data[: len(data) * percent // 100] for percent in range(100)]
    Translator.load(model, device="cpu")  # so that all imports are done before calls are counted
    with counted_calls() as whole:
        Translator.load(model, device="cpu")
    assert whole[0] > 100
    try:
        for damaged in (flipped(data), bytes(one_byte), *truncated):
            if name == "config.json" and damaged == bytes(one_byte):
                continue  # this byte is in the code of a language, which may be any text
            path.write_bytes(damaged)
            named = pytest.raises(UserError, match=r"config\.json|model\.safetensors|tokenizer")
            with named, counted_calls() as calls:
                Translator.load(model, device="cpu")
            assert calls[0] < 2 * whole[0]
    finally:
        path.write_bytes(data)


class Bomb:
    """An object that creates a directory when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (str(self.directory),)


def test_a_pickle_in_place_of_any_file_is_never_loaded(trained: tuple[str, Path], tmp_path: Path) -> None:
    corpus, model = trained
    directory = tmp_path / "unpickled"
    bombs = [pickle.dumps(Bomb(directory), protocol) for protocol in (0, 5)]
    zipped = tmp_path / "zipped.pt"
    torch.save(Bomb(directory), zipped)
    bombs.append(zipped.read_bytes())
    paths = [path for path in model.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(paths) > 12
    for path in paths:
        data = path.read_bytes()
        try:
            for bomb in bombs:
                path.write_bytes(bomb)
                for use in (lambda: Translator.load(model, device="cpu"), lambda: run(corpus, model)):
                    with suppress(UserError):
                        use()
                    assert not directory.exists(), path
        finally:
            path.write_bytes(data)


def test_the_previous_checkpoint_is_used_if_the_last_one_is_damaged(
    corpus: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(corpus, tmp_path / "whole")
    expected = {name: tensor.clone() for name, tensor in weights(tmp_path / "whole").items()}
    newest = tmp_path / "whole/run/checkpoints/step-00000012"
    for path in newest.iterdir():
        path.write_bytes(flipped(path.read_bytes()))
    run(corpus, tmp_path / "whole")
    assert "skipping this checkpoint" in caplog.text
    assert str(newest) in caplog.text
    assert same(expected, weights(tmp_path / "whole"))


# Moved directories, changed corpora, other versions


def test_a_run_in_a_renamed_directory_can_be_resumed(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(corpus, tmp_path / "whole")

    class StoppedAt7(Trainer[Seq2Seq, Batch]):
        def update(self, batches: Sequence[Batch]) -> None:
            super().update(batches)
            if self.state.progress.step == 7:
                raise KeyboardInterrupt

    with monkeypatch.context() as context:
        train_with(context, StoppedAt7)
        with pytest.raises(KeyboardInterrupt):
            run(corpus, tmp_path / "before")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "before").rename(tmp_path / "elsewhere/after")
    run(corpus, tmp_path / "elsewhere/after")
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "elsewhere/after"))


def test_a_changed_corpus_is_rejected_but_not_a_changed_modification_time(corpus: str, tmp_path: Path) -> None:
    run(corpus, tmp_path / "model")
    data = Path(corpus).read_bytes()
    Path(corpus).write_bytes(data.replace(b"one", b"two", 1))
    os.utime(corpus, ns=(1, 1))
    with pytest.raises(UserError, match=r"numbers\.tsv has changed"):
        run(corpus, tmp_path / "model")
    Path(corpus).write_bytes(data + b"\n")
    with pytest.raises(UserError, match=r"numbers\.tsv has changed"):
        run(corpus, tmp_path / "model")
    Path(corpus).write_bytes(data)
    run(corpus, tmp_path / "model")


@pytest.mark.parametrize("number", [1, 99])
def test_another_format_is_rejected_with_advice(trained: tuple[str, Path], number: int) -> None:
    corpus, model = trained
    for path, use in (
        (model / "run/run.json", lambda: run(corpus, model)),
        (model / "config.json", lambda: Translator.load(model, device="cpu")),
    ):
        text = path.read_text()
        changed = json.loads(text) | {"format": number}
        path.write_text(json.dumps(changed))
        try:
            if path.name == "config.json" and number == 1:
                use()  # the current format
            else:
                with pytest.raises(UserError, match=r"format 9?9?1?.*(version|update)"):
                    use()
        finally:
            path.write_text(text)


# Values that are not finite


@pytest.fixture(params=[1, 10], ids=["read after each update", "read late, as on a GPU"])
def poison(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[int, int], bool], str], None]:
    """Return a function that makes the loss NaN or the gradient infinite at updates where (step, rollbacks) -> True."""

    def install(condition: Callable[[int, int], bool], target: str) -> None:
        class Poisoned(Trainer[Seq2Seq, Batch]):
            def update(self, batches: Sequence[Batch]) -> None:
                gradients, progress = self.gradients, self.state.progress

                def not_finite(batches: Sequence[Batch]) -> tuple[Tensor, int]:
                    loss, tokens = gradients(batches)
                    if target == "loss":
                        return loss * math.nan, tokens
                    parameter = next(self.model.parameters())
                    assert parameter.grad is not None
                    parameter.grad[0, 0] = math.inf
                    return loss, tokens

                if condition(progress.step + 1, progress.rollbacks):
                    self.gradients = not_finite  # type: ignore[assignment]
                super().update(batches)
                self.gradients = gradients

        train_with(monkeypatch, partial(Poisoned, read_every=request.param))

    return install


def events(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("target", ["loss", "gradient"])
def test_an_update_that_is_not_finite_is_not_applied(
    corpus: str, tmp_path: Path, poison: Callable[[Callable[[int, int], bool], str], None], target: str
) -> None:
    poison(lambda step, rollbacks: step in (5, 6, 9), target)
    result = run(corpus, tmp_path / "model")
    assert (result.steps, result.skipped, result.rollbacks) == (12, 3, 0)
    assert [event["step"] for event in events(tmp_path / "model") if event["event"] == "skipped"] == [5, 6, 9]
    assert all(tensor.isfinite().all() for tensor in weights(tmp_path / "model").values())


def test_three_in_a_row_cause_a_rollback_with_half_the_learning_rate(
    corpus: str, tmp_path: Path, poison: Callable[[Callable[[int, int], bool], str], None]
) -> None:
    # There are checkpoints at the validations after updates 4 and 8.
    poison(lambda step, rollbacks: step in (6, 7, 8) and rollbacks < 2, "loss")
    result = run(corpus, tmp_path / "model")
    assert (result.steps, result.rollbacks, result.skipped) == (12, 2, 6)
    [rollback] = [event for event in events(tmp_path / "model") if event["event"] == "rollback"][-1:]
    assert rollback["step"] == 4
    assert "0.25 of the learning rate" in str(rollback["message"])
    [last] = [event for event in events(tmp_path / "model") if event["event"] == "step"]
    # The schedule decreases linearly from 1e-3 after 5 updates to 0 after 12; this is 3/7 of it, halved twice.
    assert float(str(last["learning_rate"])) < 1e-3 / 4


def test_training_fails_after_ten_rollbacks(
    corpus: str, tmp_path: Path, poison: Callable[[Callable[[int, int], bool], str], None]
) -> None:
    poison(lambda step, rollbacks: step > 5, "loss")
    with pytest.raises(UserError, match=r"after 10 rollbacks .*fp32"):
        run(corpus, tmp_path / "model")
    rollbacks = [event for event in events(tmp_path / "model") if event["event"] == "rollback"]
    assert len(rollbacks) <= MAX_ROLLBACKS
    newest = latest_checkpoint(tmp_path / "model/run/checkpoints")
    assert newest is not None
    assert newest.step == 4


# Memory


def test_a_batch_that_does_not_fit_is_split_with_one_message(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, sizes = TranslationLosses.loss, []

    def small_memory(self: TranslationLosses, model: Seq2Seq, batch: Batch) -> BatchLoss:
        if self.size(batch) > 100:
            raise torch.OutOfMemoryError("too much")
        sizes.append(self.size(batch))
        return whole(self, model, batch)

    monkeypatch.setattr(TranslationLosses, "loss", small_memory)
    result = run(corpus, tmp_path / "model")
    assert result.steps == 12
    assert max(sizes) > 50
    assert capsys.readouterr().err.count("does not fit into memory") == 1


def test_a_pair_that_does_not_fit_is_an_error(corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")

    monkeypatch.setattr(TranslationLosses, "loss", no_memory)
    with pytest.raises(UserError, match="a single pair"):
        run(corpus, tmp_path / "model")


def test_other_errors_are_not_treated_as_a_lack_of_memory(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(TranslationLosses, "loss", broken)
    with pytest.raises(RuntimeError, match="shapes"):
        run(corpus, tmp_path / "model")


def test_killed_between_the_last_validation_and_the_last_checkpoint(
    corpus: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = merge(SHORT_RUN, {"training": {"average_last": 2}})
    train([corpus], tmp_path / "whole", settings=settings)

    class DyingAtTheEnd(Trainer[Seq2Seq, Batch]):
        def save(self) -> None:
            if self.state.progress.finished:
                raise KeyboardInterrupt
            super().save()

    with monkeypatch.context() as context:
        train_with(context, DyingAtTheEnd)
        with pytest.raises(KeyboardInterrupt):
            train([corpus], tmp_path / "broken", settings=settings)
    for _ in range(2):
        train([corpus], tmp_path / "broken", settings=settings)
        logged = [
            [{key: value for key, value in event.items() if key != "elapsed"} for event in events(tmp_path / out)]
            for out in ("whole", "broken")
        ]
        assert logged[0] == logged[1]
