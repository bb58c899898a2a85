"""Checkpoints: directories of safetensors and JSON, whole or absent, checked when they are read.

    ROOT/step-00001234/
        model.safetensors, optimizer.safetensors, ...   the tensors, one file per name
        state.json                                      {"step": 1234, "state": {...}}
        manifest.json                                   size and SHA-256 of every other file

A checkpoint is written under a temporary name, synced, and renamed. Before a step is saved a second time, the
first is renamed to step-00001234.replaced, where readers still find it. So there is no moment at which a kill
or a loss of power costs the checkpoint before.
"""

import errno
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from dragoman.errors import ModelError, StorageError, UserError
from dragoman.files import atomic_directory, remove_leftovers, sync_directory, temporary_beside, write_synced

_STATE, _MANIFEST, _TENSORS, _REPLACED = "state.json", "manifest.json", ".safetensors", ".replaced"
_FORMAT = 1

_logger = logging.getLogger(__name__)


class DamagedCheckpointError(StorageError):
    """A checkpoint whose files are not those that were written."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint holds.

    step      updates made
    tensors   name of the file -> name of the tensor -> tensor, on the CPU
    state     everything else, as JSON gives it back: lists for tuples, text for keys
    """

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def checkpoint_path(root: Path, step: int) -> Path:
    """Where `save_checkpoint` puts this step."""
    return root / f"step-{step:08d}"


def list_steps(root: Path) -> list[int]:
    """The steps that have a checkpoint under `root`, rising; whether they are whole is not looked at."""
    return sorted({step for step, _ in _candidates(root)})


def save_checkpoint(
    root: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]
) -> Path:
    """Write a checkpoint and return its directory. One process at a time may save under a root.

    Tensors may be on any device; those of one name must not share memory. `state` must be JSON values.

    Raises StorageError when the disk is full. Whatever is raised, earlier checkpoints are as they were.
    """
    if not root.exists():
        root.mkdir(parents=True)
        sync_directory(root.parent)
    _tidy(root)
    path = checkpoint_path(root, step)
    replaced = path.with_name(path.name + _REPLACED)
    with atomic_directory(path) as temporary:
        files = {}
        for name, group in tensors.items():
            data = save({key: tensor.detach().cpu().contiguous() for key, tensor in group.items()})
            files[name + _TENSORS] = _write(root, temporary / (name + _TENSORS), data)
        files[_STATE] = _write(root, temporary / _STATE, _to_json({"step": step, "state": state}))
        _write(root, temporary / _MANIFEST, _to_json({"format": _FORMAT, "files": files}))
        if path.exists():
            path.replace(replaced)
    _remove(replaced)
    return path


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint; every byte is checked against its manifest.

    Raises DamagedCheckpointError (a StorageError) naming the file that is missing or not as it was written.
    """
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        if manifest["format"] != _FORMAT:
            raise StorageError(f"{path} has format {manifest['format']!r}; this version reads format {_FORMAT}")
        expected = dict(manifest["files"])
        # What was checked is what is used: each file is read once, whole.
        read = {name: _read_checked(path, name, about) for name, about in expected.items()}
        content = json.loads(read.pop(_STATE))
        tensors = {name.removesuffix(_TENSORS): load(data) for name, data in read.items()}
        return Checkpoint(step=content["step"], tensors=tensors, state=content["state"])
    except UserError:
        raise
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{error.filename} is missing: the checkpoint is not whole") from error
    except PermissionError as error:
        raise StorageError(f"{error.filename} cannot be read: {error.strerror}") from error
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DamagedCheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def latest_checkpoint(root: Path) -> Checkpoint | None:
    """Read the newest checkpoint that is whole; None when there is none at all.

    A damaged one is passed over with a logged warning. Nothing is changed on the disk.

    Raises StorageError when there are checkpoints but every one is damaged.
    """
    candidates = _candidates(root)
    for _, path in reversed(candidates):
        try:
            return load_checkpoint(path)
        except DamagedCheckpointError as error:
            _logger.warning("%s; passed over, the one before is taken", error)
    if candidates:
        raise StorageError(
            f"all {len(candidates)} checkpoints in {root} are damaged; "
            "to train from the start, remove that directory or name another"
        )
    return None


def prune(root: Path, *, keep_last: int, keep: Collection[int] = ()) -> None:
    """Remove all checkpoints but the newest `keep_last` steps and the steps in `keep`.

    Put the step just saved into `keep`: a damaged later one, passed over, counts among the newest.
    """
    assert keep_last >= 1 or keep, "this would remove every checkpoint"
    steps = list_steps(root)
    for step in sorted(set(steps[: max(len(steps) - keep_last, 0)]) - set(keep)):
        path = checkpoint_path(root, step)
        _remove(path.with_name(path.name + _REPLACED))
        _remove(path)


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Take the optimizer's state apart: tensors, named "0.exp_avg" by parameter, and JSON values."""
    saved = optimizer.state_dict()
    tensors: dict[str, Tensor] = {}
    values: dict[str, dict[str, object]] = {}
    for index, entries in saved["state"].items():
        values[str(index)] = {k: v for k, v in entries.items() if not isinstance(v, Tensor)}
        tensors |= {f"{index}.{k}": v for k, v in entries.items() if isinstance(v, Tensor)}
    return tensors, {"class": type(optimizer).__name__, "state": values, "groups": saved["param_groups"]}


def unpack_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], packed: Mapping[str, Any]
) -> None:
    """Give the optimizer the state that `pack_optimizer` took apart, bit for bit; the tensors are copied.

    Raises StorageError when the state is of another optimizer or of other parameters.
    """
    if packed["class"] != type(optimizer).__name__:
        raise StorageError(
            f"the checkpoint has the state of {packed['class']}, the optimizer is {type(optimizer).__name__}"
        )
    state = {int(index): dict(values) for index, values in packed["state"].items()}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state[int(index)][key] = tensor.clone()
    own = optimizer.state_dict()["param_groups"]
    if [len(group["params"]) for group in own] != [len(group["params"]) for group in packed["groups"]]:
        raise StorageError("the checkpoint's optimizer has other numbers of parameters than this model's")
    # JSON has no tuples (Adam's betas).
    groups = [
        {k: tuple(v) if isinstance(mine.get(k), tuple) else v for k, v in group.items()}
        for mine, group in zip(own, packed["groups"], strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def average_states(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of several models' weights, name by name, summed in float64 and cast back.

    Tensors of whole numbers (counters) have no mean: the last model's are taken.

    Raises ModelError when names or shapes differ.
    """
    total: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for state in states:
        shapes = {name: tensor.shape for name, tensor in state.items()}
        if last and shapes != {name: tensor.shape for name, tensor in last.items()}:
            raise ModelError("models with different weights cannot be averaged")
        last, count = state, count + 1
        for name, tensor in state.items():
            if tensor.is_floating_point():
                total[name] = total[name] + tensor if name in total else tensor.to(torch.float64)
    assert count, "nothing to average"
    return {
        name: (total[name] / count).to(tensor.dtype) if name in total else tensor.clone()
        for name, tensor in last.items()
    }


def _candidates(root: Path) -> list[tuple[int, Path]]:
    """Every checkpoint with its step, oldest first, one that has been replaced before its replacement."""
    found = []
    for path in root.iterdir() if root.is_dir() else ():
        if match := re.fullmatch(r"step-([0-9]{8,})(\.replaced)?", path.name):
            found.append((int(match[1]), match[2] is None, path))
    return [(step, path) for step, _, path in sorted(found)]


def _tidy(root: Path) -> None:
    """Finish what a killed process was about."""
    remove_leftovers(root)
    for replaced in root.glob(f"step-*{_REPLACED}"):
        path = replaced.with_suffix("")
        if path.exists():
            _remove(replaced)
        else:
            replaced.replace(path)


def _remove(path: Path) -> None:
    if path.exists():
        # Renamed first, so that a kill in the middle does not leave what looks like a damaged checkpoint.
        temporary = temporary_beside(path)
        path.replace(temporary)
        shutil.rmtree(temporary, ignore_errors=True)


def _to_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def _write(root: Path, path: Path, data: bytes) -> dict[str, object]:
    """Write one file of a checkpoint and return what the manifest says of it."""
    try:
        write_synced(path, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        path.unlink(missing_ok=True)  # before free space is measured
        raise StorageError(
            f"the disk of {root} is full: {path.name} of the new checkpoint takes {len(data):,} bytes, "
            f"{shutil.disk_usage(root).free:,} are free; the checkpoints before are good: "
            "make room and give the same command again"
        ) from error
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _read_checked(directory: Path, name: str, about: Mapping[str, object]) -> bytes:
    # A manifest must not make us read elsewhere.
    if Path(name).name != name or name == "..":
        raise DamagedCheckpointError(f"{directory} is damaged: its manifest names {name!r}")
    path = directory / name
    data = path.read_bytes()
    if len(data) != about["size"]:
        raise DamagedCheckpointError(f"{path} is damaged: {len(data):,} bytes instead of {about['size']:,}")
    if hashlib.sha256(data).hexdigest() != about["sha256"]:
        raise DamagedCheckpointError(f"{path} is damaged: its bytes are not those that were written")
    return data
