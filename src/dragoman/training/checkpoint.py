"""Checkpoints: directories of safetensors and JSON, written atomically and verified when they are read.

    ROOT/step-00001234/
        model.safetensors, optimizer.safetensors, ...   the tensors, one file per name
        state.json                                      {"step": 1234, "state": {...}}
        manifest.json                                   size and SHA-256 of every other file

A checkpoint is written under a temporary name, synced, and renamed. If a step is saved a second time, its first
checkpoint is renamed to step-00001234.replaced before that, where readers still find it. A killed process or a power
failure therefore never destroys the previous checkpoint.
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
    """A file of the checkpoint is missing or differs from what was written."""


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint.

    Attributes:
        step: number of updates made.
        tensors: name of the file -> name of the tensor -> tensor, on the CPU.
        state: everything else, as read from JSON (tuples have become lists, and all keys are strings).
    """

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


def checkpoint_path(root: Path, step: int) -> Path:
    """Return the directory in which `save_checkpoint` saves this step."""
    return root / f"step-{step:08d}"


def list_steps(root: Path) -> list[int]:
    """Return the steps that have a checkpoint under `root`, in ascending order; their contents are not verified."""
    return sorted({step for step, _ in _candidates(root)})


def save_checkpoint(
    root: Path, step: int, tensors: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, object]
) -> Path:
    """Write a checkpoint and return its directory.

    Only one process at a time may save under a root. Earlier checkpoints are left unchanged, also if an error is
    raised.

    Args:
        root: directory of the run's checkpoints.
        step: number of updates made.
        tensors: name of the file -> name of the tensor -> tensor, on any device. Tensors of one file must not share
            memory.
        state: JSON values.

    Raises:
        StorageError: if the disk is full.
    """
    if not root.exists():
        root.mkdir(parents=True)
        sync_directory(root.parent)
    _finish_interrupted_save(root)
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
    """Read a checkpoint and verify every byte against its manifest.

    Raises:
        DamagedCheckpointError: if a file is missing or differs from what was written; the message names the file.
        StorageError: if a file cannot be read, or the checkpoint has another format.
    """
    try:
        manifest = json.loads((path / _MANIFEST).read_bytes())
        if manifest["format"] != _FORMAT:
            raise StorageError(f"{path} has format {manifest['format']!r}; this version reads format {_FORMAT}")
        entries = dict(manifest["files"])
        # Each file is read only once, so that the verified bytes are the ones that are used.
        files = {name: _read_verified(path, name, entry) for name, entry in entries.items()}
        content = json.loads(files.pop(_STATE))
        tensors = {name.removesuffix(_TENSORS): load(data) for name, data in files.items()}
        return Checkpoint(step=content["step"], tensors=tensors, state=content["state"])
    except UserError:
        raise
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"{error.filename} is missing: the checkpoint is incomplete") from error
    except PermissionError as error:
        raise StorageError(f"cannot read {error.filename}: {error.strerror}") from error
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise DamagedCheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def latest_checkpoint(root: Path) -> Checkpoint | None:
    """Read the newest undamaged checkpoint; return None if there are no checkpoints.

    Damaged checkpoints are skipped with a logged warning. Nothing is changed on the disk.

    Raises:
        StorageError: if all checkpoints are damaged.
    """
    candidates = _candidates(root)
    for _, path in reversed(candidates):
        try:
            return load_checkpoint(path)
        except DamagedCheckpointError as error:
            _logger.warning("%s; skipping this checkpoint and using the previous one", error)
    if candidates:
        raise StorageError(
            f"all {len(candidates)} checkpoints in {root} are damaged; "
            "to train from the beginning, remove that directory or use another --out"
        )
    return None


def prune(root: Path, *, keep_last: int, keep: Collection[int] = ()) -> None:
    """Remove all checkpoints except those of the newest `keep_last` steps and of the steps in `keep`.

    Include the step just saved in `keep`: a damaged checkpoint of a later step, which was skipped, counts among the
    newest.
    """
    assert keep_last >= 1 or keep, "this would remove every checkpoint"
    steps = list_steps(root)
    for step in sorted(set(steps[: max(len(steps) - keep_last, 0)]) - set(keep)):
        path = checkpoint_path(root, step)
        _remove(path.with_name(path.name + _REPLACED))
        _remove(path)


def pack_optimizer(optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split an optimizer's state into tensors and JSON values.

    Returns:
        The tensors, named by index of the parameter and key ("0.exp_avg"), and everything else as JSON values.
    """
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
    """Restore the state that `pack_optimizer` returned, bit for bit.

    Args:
        optimizer: receives the state.
        tensors: the tensors of the state, which are copied.
        packed: the JSON values of the state.

    Raises:
        StorageError: if the state belongs to another kind of optimizer or to other parameters.
    """
    if packed["class"] != type(optimizer).__name__:
        raise StorageError(
            f"the checkpoint contains the state of {packed['class']}, but the optimizer is {type(optimizer).__name__}"
        )
    state = {int(index): dict(values) for index, values in packed["state"].items()}
    for name, tensor in tensors.items():
        index, _, key = name.partition(".")
        state[int(index)][key] = tensor.clone()
    own = optimizer.state_dict()["param_groups"]
    if [len(group["params"]) for group in own] != [len(group["params"]) for group in packed["groups"]]:
        raise StorageError("the optimizer in the checkpoint has a different number of parameters than this model's")
    # JSON has no tuples (Adam's betas).
    groups = [
        {k: tuple(v) if isinstance(mine.get(k), tuple) else v for k, v in group.items()}
        for mine, group in zip(own, packed["groups"], strict=True)
    ]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def average_states(states: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of the weights of several models.

    Weights are summed in float64 and the mean is cast back to their type. Tensors of whole numbers (counters) are taken
    from the last model.

    Args:
        states: for each model, name of the tensor -> tensor.

    Raises:
        ModelError: if names or shapes differ between the models.
    """
    total: dict[str, Tensor] = {}
    last: Mapping[str, Tensor] = {}
    count = 0
    for state in states:
        shapes = {name: tensor.shape for name, tensor in state.items()}
        if last and shapes != {name: tensor.shape for name, tensor in last.items()}:
            raise ModelError("cannot average models whose weights differ in name or shape")
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
    """Return every checkpoint with its step, oldest first; a replaced checkpoint comes before its replacement."""
    checkpoints = []
    for path in root.iterdir() if root.is_dir() else ():
        if match := re.fullmatch(r"step-([0-9]{8,})(\.replaced)?", path.name):
            checkpoints.append((int(match[1]), match[2] is None, path))
    return [(step, path) for step, _, path in sorted(checkpoints)]


def _finish_interrupted_save(root: Path) -> None:
    """Clean up after a process that was killed while it saved a checkpoint."""
    remove_leftovers(root)
    for replaced in root.glob(f"step-*{_REPLACED}"):
        path = replaced.with_suffix("")
        if path.exists():
            _remove(replaced)
        else:
            replaced.replace(path)


def _remove(path: Path) -> None:
    if path.exists():
        # Renamed first: if the process is killed halfway, the remains do not look like a damaged checkpoint.
        temporary = temporary_beside(path)
        path.replace(temporary)
        shutil.rmtree(temporary, ignore_errors=True)


def _to_json(value: object) -> bytes:
    return json.dumps(value, indent=1).encode()


def _write(root: Path, path: Path, data: bytes) -> dict[str, object]:
    """Write one file of a checkpoint and return its entry in the manifest."""
    try:
        write_synced(path, data)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        path.unlink(missing_ok=True)  # before the free space is measured
        raise StorageError(
            f"the disk of {root} is full: {path.name} of the new checkpoint needs {len(data):,} bytes, "
            f"{shutil.disk_usage(root).free:,} are free; earlier checkpoints are intact: "
            "free some space and run the same command again"
        ) from error
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _read_verified(directory: Path, name: str, entry: Mapping[str, object]) -> bytes:
    """Read one file of a checkpoint and verify it against its entry in the manifest."""
    # A damaged manifest must not make us read files outside the checkpoint.
    if Path(name).name != name or name == "..":
        raise DamagedCheckpointError(f"{directory} is damaged: its manifest lists {name!r}")
    path = directory / name
    data = path.read_bytes()
    if len(data) != entry["size"]:
        raise DamagedCheckpointError(f"{path} is damaged: expected {entry['size']:,} bytes, found {len(data):,}")
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise DamagedCheckpointError(f"{path} is damaged: its contents have changed since it was written")
    return data
