"""The plan of a run, run/run.json: all its settings, with which it can be resumed after any interruption."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from dragoman.errors import CorpusError, SettingsError, StorageError
from dragoman.files import read_json_object, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.registry import read_model_config
from dragoman.run.common_config import CommonConfig
from dragoman.run.config import RunConfig
from dragoman.run.labelled_config import LABELLED_CONFIGS
from dragoman.run.picture_config import PICTURE_CONFIGS
from dragoman.run.text_config import CONFIGS
from dragoman.settings import differences, from_mapping, to_mapping

RUN_FORMAT = 3


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run with all its settings: the contents of run.json.

    Attributes:
        request: corpora, files and settings that the user gave, see `make_request`.
        config: all settings of the run.
        model: all settings of the model.
        training_size: number of training pairs, or of tokens of the training text.
        validation_size: number of pairs of the validation corpus, or of tokens of the validation text.
        trained_length: longest source in training, in subwords; or number of tokens of a window of text.
        format: version of the format of run.json.
    """

    request: dict[str, Any]
    config: CommonConfig
    model: ModelConfig
    training_size: int
    validation_size: int
    trained_length: int
    format: int = RUN_FORMAT


def make_request(
    corpora: Sequence[str], validation: str | None, settings: Mapping[str, Any], files: Iterable[str]
) -> dict[str, Any]:
    """Return what the user requested, with size and modification time of every file.

    A run is resumed by a call with an equal request.

    Args:
        corpora: corpora to train on.
        validation: corpus to validate on.
        settings: settings of a run file.
        files: paths of the files of all corpora.
    """
    stats = {str(path): path.stat() for path in map(Path, files) if path.is_file()}
    return {
        "corpora": list(corpora),
        "validation": validation,
        "files": {path: {"size": stat.st_size, "modified": stat.st_mtime_ns} for path, stat in stats.items()},
        "settings": json.loads(json.dumps(settings)),
    }


def find_plan(run: Path, request: dict[str, Any]) -> Plan | None:
    """Return the plan that an earlier call with the same request wrote; None if there is no run yet.

    Args:
        run: the directory run/.
        request: from `make_request`.

    Raises:
        SettingsError: if the existing run has another request.
        CorpusError: if a corpus has changed since the run was started.
        StorageError: if run.json is damaged.
    """
    if not (run / "run.json").exists():
        return None
    plan = load_plan(run)
    earlier = plan.request
    for name, file in earlier["files"].items():
        if name in request["files"]:
            _check_unchanged(name, file, request["files"][name])
    changes = differences(*({key: value for key, value in r.items() if key != "files"} for r in (earlier, request)))
    if changes:
        raise SettingsError(
            f"{run.parent} contains a run with other settings: {'; '.join(changes)}; repeat the original command to "
            "resume it, or use another --out to start a new run"
        )
    return plan


def load_plan(run: Path) -> Plan:
    """Read the plan of an existing run.

    Args:
        run: the directory run/.

    Raises:
        StorageError: if run.json is missing or damaged, or was written by an incompatible version.
    """
    path = run / "run.json"
    mapping = read_json_object(path, missing=f"{path} is missing: there is no run to resume", error=StorageError)
    if mapping.get("format") != RUN_FORMAT:
        raise StorageError(
            f"{path} has format {mapping.get('format')!r}, but this version resumes format {RUN_FORMAT}: finish the "
            "run with the version that started it, or use another --out; the trained model in that directory can still "
            "be used"
        )
    if missing := [field.name for field in fields(Plan) if field.name not in mapping]:
        raise StorageError(f"{path} is damaged: missing {', '.join(missing)}")
    cls = {**CONFIGS, **LABELLED_CONFIGS, **PICTURE_CONFIGS}.get(mapping["config"].get("task"), RunConfig)
    config: CommonConfig = from_mapping(cls, mapping["config"], str(path), error=StorageError)
    model = read_model_config(config.architecture, mapping["model"], str(path))
    return Plan(**{**{field.name: mapping[field.name] for field in fields(Plan)}, "config": config, "model": model})


def write_plan(run: Path, plan: Plan) -> Plan:
    """Write run.json, after everything else that a run needs; return the plan with the digest of every file.

    Args:
        run: the directory run/.
        plan: the plan, with the request from `make_request`.
    """
    files = {name: {**file, "sha256": _sha256(name)} for name, file in plan.request["files"].items()}
    plan = replace(plan, request={**plan.request, "files": files})
    write_atomically(run / "run.json", (json.dumps(to_mapping(plan), indent=2) + "\n").encode())
    return plan


def _check_unchanged(name: str, earlier: dict[str, Any], now: dict[str, Any]) -> None:
    """Check that a file has not changed. If only its modification time has changed, the contents are compared.

    Raises:
        CorpusError: if the file has changed.
    """
    if earlier["size"] == now["size"] and (
        earlier["modified"] == now["modified"] or earlier["sha256"] == _sha256(name)
    ):
        return
    raise CorpusError(
        f"{name} has changed since this run was started ({earlier['size']:,} bytes then, {now['size']:,} now): restore "
        "the earlier file to resume the run, or use another --out to train on the new file"
    )


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
