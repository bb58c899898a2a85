"""The plan of a run, run/run.json: all its settings, with which it can be resumed after any interruption."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from dragoman.data.readers import parse_corpus
from dragoman.device import return_freed_memory
from dragoman.errors import CorpusError, SettingsError, StorageError
from dragoman.files import read_json_object, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.registry import read_model_config
from dragoman.run.config import CorpusSize, RunConfig, model_config, read_settings, resolve, resolve_without_corpus
from dragoman.run.preparation import build_corpus, build_tokenizer, write_clean_text
from dragoman.settings import differences, from_mapping, to_mapping

RUN_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run with all its settings: the contents of run.json.

    Attributes:
        request: corpora, files and settings that the user gave, see `make_request`.
        config: all settings of the run.
        model: all settings of the model.
        training_pairs: number of training pairs.
        validation_pairs: number of pairs in the validation corpus.
        trained_length: longest source in training, in subwords.
        format: version of the format of run.json.
    """

    request: dict[str, Any]
    config: RunConfig
    model: ModelConfig
    training_pairs: int
    validation_pairs: int
    trained_length: int
    format: int = RUN_FORMAT


def make_request(corpora: Sequence[str], validation: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the user requested, with size and modification time of every file.

    A run is resumed by a call with an equal request.

    Args:
        corpora: corpora to train on.
        validation: corpus to validate on.
        settings: settings of a run file.

    Raises:
        SettingsError: if no corpus is given.
    """
    if not corpora:
        raise SettingsError("give at least one corpus to train on")
    names = [*corpora, validation] if validation is not None else corpora
    paths = [Path(path) for name in names for path in parse_corpus(name).paths]
    files = {str(path): path.stat() for path in paths if path.is_file()}
    return {
        "corpora": list(corpora),
        "validation": validation,
        "files": {path: {"size": stat.st_size, "modified": stat.st_mtime_ns} for path, stat in files.items()},
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
    config = from_mapping(RunConfig, mapping["config"], str(path), error=StorageError)
    model = read_model_config(config.architecture, mapping["model"], str(path))
    return Plan(**{**{field.name: mapping[field.name] for field in fields(Plan)}, "config": config, "model": model})


def make_plan(request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
    """Read and clean the corpora, learn the subwords, prepare the corpus, and determine all settings.

    The file run.json is written last.

    Args:
        request: from `make_request`.
        out: the model directory, which receives the tokenizer.
        run: the directory run/.
        console: shows the progress.

    Raises:
        SettingsError: for an invalid setting, before any corpus is read.
        CorpusError: for an invalid corpus.
    """
    user = read_settings(request["settings"])
    checked = resolve_without_corpus(user)
    text = write_clean_text(
        request["corpora"], request["validation"], checked.cleaning, checked.data, run / "text", console
    )
    console.print(Text(text.report.table()))
    size = CorpusSize(pairs=text.training_pairs, characters=text.characters)
    config = resolve(user, size).run
    with console.status("learning the subwords"):
        tokenizer = build_tokenizer(text, config)
    return_freed_memory()  # learning takes hundreds of megabytes
    tokenizer.save(out)
    corpus = build_corpus(text, tokenizer, config, run / "prepared", console)
    return_freed_memory()
    resolved = resolve(user, replace(size, target_tokens=corpus.meta.target_tokens))
    files = {name: {**file, "sha256": _sha256(name)} for name, file in request["files"].items()}
    plan = Plan(
        request={**request, "files": files},
        config=resolved.run,
        model=model_config(resolved, tokenizer.source_size, tokenizer.target_size),
        training_pairs=len(corpus),
        validation_pairs=text.validation_pairs,
        trained_length=int(max(corpus.source_lengths.max(), 1)),
    )
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
