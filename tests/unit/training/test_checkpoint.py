"""Checkpoints: an interrupted save never destroys the previous checkpoint, and damage is always detected."""

import errno
import io
import itertools
import json
import logging
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from dragoman import files
from dragoman.errors import UserError
from dragoman.files import atomic_directory, remove_leftovers, write_atomically
from dragoman.training import checkpoint as checkpoint_module
from dragoman.training.checkpoint import (
    Checkpoint,
    DamagedCheckpointError,
    average_states,
    checkpoint_path,
    latest_checkpoint,
    list_steps,
    load_checkpoint,
    pack_optimizer,
    prune,
    save_checkpoint,
    unpack_optimizer,
)


def save_small(root: Path, step: int, value: float | None = None) -> Path:
    weight = torch.full((2, 3), step if value is None else value)
    tensors = {"model": {"weight": weight, "bias": torch.tensor([step])}, "random": {"cpu": torch.arange(4)}}
    return save_checkpoint(root, step, tensors, {"patience": 2, "name": "ü", "step_of_state": step})


def assert_intact(checkpoint: Checkpoint | None, step: int, value: float | None = None) -> None:
    assert checkpoint is not None
    assert checkpoint.step == step
    assert checkpoint.state == {"patience": 2, "name": "ü", "step_of_state": step}
    weight = torch.full((2, 3), step if value is None else value)
    assert torch.equal(checkpoint.tensors["model"]["weight"], weight.float())
    assert torch.equal(checkpoint.tensors["model"]["bias"], torch.tensor([step]))
    assert torch.equal(checkpoint.tensors["random"]["cpu"], torch.arange(4))


def discard(_: object) -> None:
    pass


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_a_checkpoint_is_loaded_as_it_was_saved_bit_for_bit(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    random_floats = torch.randn(5, 7, generator=generator)
    group = {
        "float32": random_floats,
        "transposed": random_floats.T,
        "slice": random_floats.clone()[1:, 2:],
        "bfloat16": random_floats.bfloat16(),
        "float16": random_floats.half(),
        "float64": random_floats.double() / 3,
        "odd": torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0, 5e-324], dtype=torch.float64),
        "int64": torch.tensor([2**62, -1]),
        "bool": torch.tensor([True, False]),
        "bytes": torch.get_rng_state(),
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 3),
        "parameter": nn.Parameter(torch.ones(2)),
    }
    group["transposed"] = group["transposed"].clone(memory_format=torch.preserve_format)
    state = {
        "seconds": 0.1 + 0.2,
        "best": -float("inf"),
        "none": None,
        "big": 2**80,
        "list": [1, [2.5, "\u2028"]],
    }
    path = save_checkpoint(tmp_path / "deep" / "root", 12, {"model": group, "none": {}}, state)
    assert path == checkpoint_path(tmp_path / "deep" / "root", 12)
    assert path.name == "step-00000012"
    assert names_in(path) == ["manifest.json", "model.safetensors", "none.safetensors", "state.json"]
    loaded = load_checkpoint(path)
    assert loaded.step == 12
    assert loaded.state == state
    assert loaded.tensors["none"] == {}
    assert loaded.tensors["model"].keys() == group.keys()
    for name, tensor in group.items():
        loaded_tensor = loaded.tensors["model"][name]
        assert loaded_tensor.dtype == tensor.dtype
        assert loaded_tensor.shape == tensor.shape
        both_bytes = (
            loaded_tensor.contiguous().view(-1).view(torch.uint8),
            tensor.detach().contiguous().view(-1).view(torch.uint8),
        )
        assert torch.equal(*both_bytes), name
        loaded_tensor.zero_()  # a loaded tensor can be modified


def test_the_latest_checkpoint_is_that_of_the_highest_step(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    assert latest_checkpoint(root) is None
    assert list_steps(root) == []
    for step in (9, 123456789, 10):
        save_small(root, step)
    (root / "step-1").mkdir()
    (root / "notes").write_text("mine")
    assert list_steps(root) == [9, 10, 123456789]
    assert_intact(latest_checkpoint(root), 123456789)


def test_saving_a_step_again_replaces_its_checkpoint(tmp_path: Path) -> None:
    save_small(tmp_path, 5, value=1.0)
    save_small(tmp_path, 5, value=2.0)
    assert_intact(latest_checkpoint(tmp_path), 5, value=2.0)
    assert names_in(tmp_path) == ["step-00000005"]


def test_prune_keeps_the_newest_and_the_listed_steps(tmp_path: Path) -> None:
    for step in range(1, 8):
        save_small(tmp_path, step)
    prune(tmp_path, keep_last=2, keep={1, 3, 99})
    assert list_steps(tmp_path) == [1, 3, 6, 7]
    assert names_in(tmp_path) == [f"step-{step:08d}" for step in (1, 3, 6, 7)]
    prune(tmp_path, keep_last=9)
    assert list_steps(tmp_path) == [1, 3, 6, 7]
    prune(tmp_path, keep_last=0, keep={3})
    assert list_steps(tmp_path) == [3]
    with pytest.raises(AssertionError):
        prune(tmp_path, keep_last=0)


# Damage


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_small(tmp_path_factory.mktemp("whole"), 7)


FILES = ["manifest.json", "model.safetensors", "random.safetensors", "state.json"]


@settings(max_examples=300, deadline=None)
@given(name=st.sampled_from(FILES), data=st.data())
def test_every_flipped_bit_is_detected(whole: Path, name: str, data: st.DataObject) -> None:
    path = whole / name
    good = path.read_bytes()
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    try:
        path.write_bytes(bad)
        with pytest.raises(UserError, match=r"damaged|missing|format"):
            load_checkpoint(whole)
    finally:
        path.write_bytes(good)
    assert_intact(load_checkpoint(whole), 7)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", [truncate, empty, lengthen, Path.unlink])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, damage: Callable[[Path], None]
) -> None:
    save_small(tmp_path, 1)
    newer = save_small(tmp_path, 2)
    damage(newer / name)
    with pytest.raises(DamagedCheckpointError, match=r"step-00000002"):
        load_checkpoint(newer)
    with caplog.at_level(logging.WARNING):
        assert_intact(latest_checkpoint(tmp_path), 1)
    (record,) = caplog.records
    assert str(newer) in record.getMessage()
    # The run that resumes from step 1 saves step 2 again.
    save_small(tmp_path, 2)
    assert_intact(latest_checkpoint(tmp_path), 2)
    assert names_in(tmp_path) == ["step-00000001", "step-00000002"]


def test_it_is_an_error_if_all_checkpoints_are_damaged(tmp_path: Path) -> None:
    truncate(save_small(tmp_path, 1) / "state.json")
    with pytest.raises(UserError, match=r"all 1 checkpoints in .* are damaged"):
        latest_checkpoint(tmp_path)


def test_a_damaged_later_checkpoint_does_not_replace_an_intact_one(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_small(tmp_path, step)
    truncate(tmp_path / "step-00000003" / "manifest.json")
    prune(tmp_path, keep_last=1, keep={2})
    assert list_steps(tmp_path) == [2, 3]
    assert_intact(latest_checkpoint(tmp_path), 2)


@pytest.mark.parametrize(
    "manifest",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"{}",
        b'{"format": 1, "files": 5}',
        b'{"format": 1, "files": {}}',
        b'{"format": 1, "files": {"state.json": 5}}',
        b'{"format": 1, "files": {"state.json": {"size": "x", "sha256": ""}}}',
        b'{"format": 1, "files": {"../step-00000001/state.json": {"size": 5, "sha256": ""}}}',
        b'{"format": 1, "files": {"/etc/passwd": {"size": 5, "sha256": ""}}}',
        b'{"format": 1, "files": {"..": {"size": 5, "sha256": ""}}}',
        b'{"format": 1, "files": {"": {"size": 5, "sha256": ""}}}',
    ],
)
def test_an_invalid_manifest_is_damage(tmp_path: Path, manifest: bytes) -> None:
    path = save_small(tmp_path, 1)
    (path / "manifest.json").write_bytes(manifest)
    with pytest.raises(DamagedCheckpointError):
        load_checkpoint(path)


def test_another_format_is_reported_as_such(tmp_path: Path) -> None:
    save_small(tmp_path, 1)
    path = save_small(tmp_path, 2)
    manifest = json.loads((path / "manifest.json").read_bytes())
    (path / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(UserError, match="has format 2; this version reads format 1"):
        latest_checkpoint(tmp_path)


# Crashes


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: a simulated crash does not lose written data."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed(BaseException):
    """The simulated process was killed."""


class FailingCalls:
    """Counts the calls that change the disk. Call number `fails_at` fails, and if `permanent` also all later ones."""

    def __init__(self, fails_at: int, error: Callable[[], BaseException], permanent: bool) -> None:
        self.calls = 0
        self.fails_at, self.error, self.permanent = fails_at, error, permanent

    def count(self) -> None:
        self.calls += 1
        if self.calls == self.fails_at or (self.permanent and self.calls > self.fails_at):
            raise self.error()

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.count()
            return function(*args, **kwargs)

        return wrapped


@contextmanager
def failing_calls(fails_at: int, error: Callable[[], BaseException], permanent: bool) -> Iterator[FailingCalls]:
    failing = FailingCalls(fails_at, error, permanent)
    with pytest.MonkeyPatch.context() as patch:
        for module, name in [
            (os, "fsync"),
            (os, "replace"),
            (os, "mkdir"),
            (os, "open"),
            (os, "unlink"),
            (os, "rmdir"),
            (io, "open"),
            (shutil, "rmtree"),
        ]:
            patch.setattr(module, name, failing.wrap(getattr(module, name)))
        yield failing


def io_error() -> BaseException:
    return OSError(errno.EIO, "Input/output error")


def crash_everywhere(
    prepare: Callable[[], None], act: Callable[[], None], check: Callable[[bool], None], permanent: bool
) -> int:
    """Let `act` fail at its first, second, ... call that changes the disk; return the number of these calls."""
    for fails_at in itertools.count(1):
        prepare()
        failed = False
        with failing_calls(fails_at, Killed if permanent else io_error, permanent) as failing:
            try:
                act()
            except (Killed, OSError):
                failed = True
        check(failed)
        if failing.calls < fails_at:
            assert not failed
            return fails_at - 1
    raise AssertionError


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize(("permanent", "leftover"), [(True, True), (False, False)], ids=["killed", "error"])
def test_a_crash_at_any_call_of_a_save_leaves_the_previous_checkpoint(
    tmp_path: Path, permanent: bool, leftover: bool
) -> None:
    root = tmp_path / "root"

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        save_small(root, 1)
        if leftover:
            (root / ".tmp-dragoman-0").mkdir()
            (root / ".tmp-dragoman-0" / "model.safetensors").write_bytes(b"half")

    def check(failed: bool) -> None:
        latest = latest_checkpoint(root)
        assert latest is not None
        # Only the last call, the sync of the parent directory, may fail after the new checkpoint is in place.
        assert latest.step in ((1, 2) if failed else (2,))
        assert_intact(latest, latest.step)
        assert_intact(load_checkpoint(checkpoint_path(root, 1)), 1)
        save_small(root, 3)
        assert_intact(latest_checkpoint(root), 3)
        assert not [name for name in names_in(root) if name.startswith(".")]

    calls = crash_everywhere(prepare, lambda: discard(save_small(root, 2)), check, permanent)
    assert calls >= 13  # open and sync of four files, of the directory and of its parent, and the rename


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("permanent", [True, False], ids=["killed", "error"])
def test_a_crash_at_any_call_of_a_second_save_of_a_step_leaves_an_intact_checkpoint(
    tmp_path: Path, permanent: bool
) -> None:
    root = tmp_path / "root"

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        save_small(root, 5, value=1.0)

    def check(failed: bool) -> None:
        latest = latest_checkpoint(root)
        assert latest is not None
        value = float(latest.tensors["model"]["weight"][0, 0])
        assert value in ((1.0, 2.0) if failed else (2.0,))
        assert_intact(latest, 5, value)
        assert list_steps(root) == [5]
        # The next save, of any step, completes the interrupted one.
        save_small(root, 6)
        assert_intact(load_checkpoint(checkpoint_path(root, 5)), 5, value)
        assert names_in(root) == ["step-00000005", "step-00000006"]

    crash_everywhere(prepare, lambda: discard(save_small(root, 5, value=2.0)), check, permanent)


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("permanent", [True, False], ids=["killed", "error"])
def test_a_crash_at_any_call_of_prune_leaves_only_intact_checkpoints(tmp_path: Path, permanent: bool) -> None:
    root = tmp_path / "root"

    def prepare() -> None:
        shutil.rmtree(root, ignore_errors=True)
        for step in (1, 2, 3):
            save_small(root, step)

    def check(failed: bool) -> None:
        assert list_steps(root)[-1] == 3
        for step in list_steps(root):
            assert_intact(load_checkpoint(checkpoint_path(root, step)), step)

    crash_everywhere(prepare, lambda: prune(root, keep_last=1), check, permanent)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("name", FILES)
def test_a_full_disk_is_reported_and_destroys_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    save_small(tmp_path, 1)

    def write_until_full(path: Path, data: bytes) -> None:
        if path.name == name:
            path.write_bytes(data[: len(data) // 2])
            raise OSError(code, os.strerror(code))
        files.write_synced(path, data)

    monkeypatch.setattr(checkpoint_module, "write_synced", write_until_full)
    with pytest.raises(UserError, match=rf"is full: {name} of the new checkpoint needs [\d,]+ bytes, [\d,]+ are"):
        save_small(tmp_path, 2)
    assert names_in(tmp_path) == ["step-00000001"]
    assert_intact(latest_checkpoint(tmp_path), 1)


def test_all_files_are_synced_before_the_checkpoint_is_renamed(tmp_path: Path) -> None:
    events: list[tuple[str, int]] = []
    sync, rename = os.fsync, os.replace

    def recorded_sync(descriptor: int) -> None:
        sync(descriptor)
        events.append(("sync", os.fstat(descriptor).st_ino))

    def recorded_rename(source: Path, target: Path) -> None:
        rename(source, target)
        events.append(("rename", target.stat().st_ino))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", recorded_sync)
        patch.setattr(os, "replace", recorded_rename)
        path = save_small(tmp_path, 1)
    renamed = events.index(("rename", path.stat().st_ino))
    before, after = events[:renamed], events[renamed + 1 :]
    contents = {("sync", inside.stat().st_ino) for inside in path.iterdir()}
    assert len(contents) == 4
    assert set(before[:-1]) == contents
    assert before[-1] == ("sync", path.stat().st_ino)
    # The manifest is written after the files that it lists.
    assert before.index(("sync", (path / "manifest.json").stat().st_ino)) == 3
    assert after == [("sync", tmp_path.stat().st_ino)]


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
import torch
from dragoman.training.checkpoint import latest_checkpoint, prune, save_checkpoint

root, generator = Path(sys.argv[1]), random.Random(int(sys.argv[2]))

def tensors(step):
    return {"model": {"a": torch.full((20_000,), float(step)), "b": torch.tensor(step)}}

def save_repeatedly(step, pipe):
    while True:
        for _ in range(1 + step % 2):  # every other step twice
            save_checkpoint(root, step, tensors(step), {"step": step})
        os.write(pipe, b"%d\\n" % step)
        prune(root, keep_last=2)
        step += 1

reached = 0
for _ in range(12):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        save_repeatedly(reached + 1, write_end)
    os.close(write_end)
    time.sleep(generator.uniform(0.0, 0.15))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as lines:
        reported = [reached] + [int(line) for line in lines]
    latest = latest_checkpoint(root)
    reached = latest.step if latest else 0
    assert reached >= reported[-1], (reached, reported)
    if latest:
        assert latest.state == {"step": reached}
        assert torch.equal(latest.tensors["model"]["a"], tensors(reached)["model"]["a"])
        assert int(latest.tensors["model"]["b"]) == reached
print(reached)
"""


def test_a_real_kill_at_a_random_moment_leaves_the_last_reported_checkpoint(tmp_path: Path) -> None:
    seed = random.randrange(1000)  # the timing is not reproducible anyway
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "root"), str(seed)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "damaged" not in done.stderr
    assert int(done.stdout) > 0


# Single files


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("permanent", [True, False], ids=["killed", "error"])
def test_a_crash_leaves_either_the_old_or_the_new_file(tmp_path: Path, permanent: bool) -> None:
    path = tmp_path / "config.json"

    def check(failed: bool) -> None:
        assert path.read_bytes() in ((b"old", b"new") if failed else (b"new",))
        remove_leftovers(tmp_path)
        assert names_in(tmp_path) == ["config.json"]

    prepare: Callable[[], None] = lambda: discard(path.write_bytes(b"old"))  # noqa: E731
    calls = crash_everywhere(prepare, lambda: write_atomically(path, b"new"), check, permanent)
    assert calls >= 5


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "directory" / "inside").mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        write_atomically(tmp_path / "directory", b"data")
    assert names_in(tmp_path) == ["directory"]


def test_a_directory_is_synced_with_all_its_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    with atomic_directory(tmp_path / "made") as inside:
        (inside / "deep").mkdir()
        (inside / "deep" / "file").write_bytes(b"1")
    made = tmp_path / "made"
    expected = [made / "deep", made / "deep" / "file", made, tmp_path]
    assert synced == [path.stat().st_ino for path in expected]


def test_a_directory_is_not_created_if_the_block_fails(tmp_path: Path) -> None:
    def fill_and_fail() -> None:
        with atomic_directory(tmp_path / "made") as inside:
            (inside / "file").write_bytes(b"1")
            raise KeyError

    with pytest.raises(KeyError):
        fill_and_fail()
    assert names_in(tmp_path) == []
    with atomic_directory(tmp_path / "made") as inside:
        (inside / "file").write_bytes(b"1")
    assert names_in(tmp_path) == ["made"]


def test_new_files_have_the_default_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "ours", b"")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


# Optimizers


def small_model() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(3, 4, generator=generator)).square().sum().backward()
        optimizer.step()


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.98), eps=1e-9),
    "adam fused": lambda p: torch.optim.Adam(p, lr=0.1, fused=True),
    "adam foreach": lambda p: torch.optim.Adam(p, lr=0.1, foreach=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1),
    "adamw fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "adamw amsgrad": lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "sgd momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def groups_of(model: nn.Module) -> list[dict[str, Any]]:
    """Return two parameter groups with different settings."""
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if "weight" in name], "weight_decay": 0.1},
        {"params": [p for name, p in named if "bias" in name], "lr": 1 / 3},
    ]


def assert_same_state(a: torch.optim.Optimizer, b: torch.optim.Optimizer) -> None:
    one, other = a.state_dict(), b.state_dict()
    assert one["param_groups"] == other["param_groups"]
    assert one["state"].keys() == other["state"].keys()
    for index, entries in one["state"].items():
        assert entries.keys() == other["state"][index].keys()
        for key, value in entries.items():
            other_value = other["state"][index][key]
            assert type(other_value) is type(value)
            if isinstance(value, Tensor):
                assert other_value.dtype == value.dtype
                assert other_value.shape == value.shape
                assert torch.equal(other_value, value)
            else:
                assert other_value == value


@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("steps", [0, 3])
def test_a_restored_optimizer_continues_bit_for_bit(tmp_path: Path, kind: str, steps: int) -> None:
    model = small_model()
    optimizer = OPTIMIZERS[kind](groups_of(model))
    train(model, optimizer, steps, seed=1)
    tensors, packed = pack_optimizer(optimizer)
    path = save_checkpoint(tmp_path, steps, {"optimizer": tensors}, {"optimizer": packed})

    twin = small_model()
    twin.load_state_dict(model.state_dict())
    twin_optimizer = OPTIMIZERS[kind](groups_of(twin))
    loaded = load_checkpoint(path)
    unpack_optimizer(twin_optimizer, loaded.tensors["optimizer"], loaded.state["optimizer"])
    assert_same_state(optimizer, twin_optimizer)

    train(model, optimizer, 3, seed=2)
    train(twin, twin_optimizer, 3, seed=2)
    assert_same_state(optimizer, twin_optimizer)
    for parameter, twin_parameter in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(parameter, twin_parameter)
    # Training changes the optimizer, but not the checkpoint in memory.
    again = load_checkpoint(path).tensors["optimizer"]
    assert all(torch.equal(again[name], loaded.tensors["optimizer"][name]) for name in again)


def test_the_state_of_another_optimizer_is_rejected() -> None:
    model = small_model()
    tensors, packed = pack_optimizer(torch.optim.Adam(model.parameters()))
    with pytest.raises(UserError, match="the state of Adam, but the optimizer is SGD"):
        unpack_optimizer(torch.optim.SGD(model.parameters()), tensors, packed)
    with pytest.raises(UserError, match="a different number of parameters"):
        unpack_optimizer(torch.optim.Adam([nn.Parameter(torch.ones(1))]), tensors, packed)
    with pytest.raises(UserError, match="a different number of parameters"):
        unpack_optimizer(torch.optim.Adam(groups_of(model)), tensors, packed)


# Averages


def test_an_average_is_the_mean_in_float64() -> None:
    generator = torch.Generator().manual_seed(1)
    states = [{"w": torch.randn(100, generator=generator), "n": torch.tensor(i)} for i in range(5)]
    average = average_states(iter(states))
    exact = torch.stack([state["w"].double() for state in states]).mean(0)
    assert average["w"].dtype == torch.float32
    assert torch.equal(average["w"], exact.float())
    assert average["n"] == 4


def test_weights_in_bfloat16_are_summed_in_float64() -> None:
    # In bfloat16, 1 + 2^-9 is 1, so a sum in bfloat16 would lose the small values.
    states = [{"w": torch.tensor([1.0]).bfloat16()}] + [{"w": torch.tensor([2.0**-9]).bfloat16()}] * 255
    total = 1 + 255 * 2.0**-9
    assert torch.equal(average_states(states)["w"], torch.tensor([total / 256]).bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_average_of_one_model_is_a_copy(dtype: torch.dtype) -> None:
    state = {"w": torch.tensor([0.1, 0.2], dtype=dtype), "n": torch.tensor(3)}
    average = average_states([state])
    assert torch.equal(average["w"], state["w"])
    average["w"].zero_()
    average["n"].zero_()
    assert state["w"][0] == torch.tensor(0.1, dtype=dtype)
    assert state["n"] == 3


def test_models_with_different_weights_are_not_averaged() -> None:
    for other in ({"v": torch.ones(2)}, {"w": torch.ones(3)}, {"w": torch.ones(2), "v": torch.ones(1)}):
        with pytest.raises(UserError, match="cannot average models"):
            average_states([{"w": torch.ones(2)}, other])
