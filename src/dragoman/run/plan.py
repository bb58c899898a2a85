"""A run with every choice made, so that it can go on after any interruption: run/run.json."""

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
from dragoman.run.config import CorpusSize, RunConfig, draft, model_config, read_settings, resolve
from dragoman.run.preparation import build_corpus, build_tokenizer, write_clean_text
from dragoman.settings import differences, from_mapping, to_mapping

RUN_FORMAT = 2


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run with every choice made: what run.json holds."""

    request: dict[str, Any]
    config: RunConfig
    model: ModelConfig
    training_pairs: int
    validation_pairs: int
    trained_length: int
    format: int = RUN_FORMAT


def make_request(corpora: Sequence[str], validation: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the user asked for, with size and time of every file: the same request goes on with the same run."""
    if not corpora:
        raise SettingsError("name at least one corpus to train on")
    named = [*corpora, validation] if validation is not None else corpora
    paths = [Path(path) for name in named for path in parse_corpus(name).paths]
    files = {str(path): path.stat() for path in paths if path.is_file()}
    return {
        "corpora": list(corpora),
        "validation": validation,
        "files": {path: {"size": stat.st_size, "modified": stat.st_mtime_ns} for path, stat in files.items()},
        "settings": json.loads(json.dumps(settings)),
    }


def find_plan(run: Path, request: dict[str, Any]) -> Plan | None:
    """The plan that an earlier call with the same request wrote; None when there is no run yet.

    Raises:
        SettingsError: when the run there was asked for differently.
        CorpusError: when a corpus has changed since.
        StorageError: when run.json is damaged.
    """
    if not (run / "run.json").exists():
        return None
    plan = load_plan(run)
    begun = plan.request
    for name, file in begun["files"].items():
        if name in request["files"]:
            _refuse_changed(name, file, request["files"][name])
    without_files = [{key: value for key, value in each.items() if key != "files"} for each in (begun, request)]
    changed = differences(*without_files)
    if changed:
        raise SettingsError(
            f"{run.parent} holds a run with other settings: {'; '.join(changed)}; give the same command to go on with "
            "it, or another --out to start anew"
        )
    return plan


def load_plan(run: Path) -> Plan:
    """Read run.json of a run that has begun.

    Raises:
        StorageError: when it is damaged, or of another version.
    """
    path = run / "run.json"
    mapping = read_json_object(path, missing=f"{path} is missing: there is no run to resume", error=StorageError)
    if mapping.get("format") != RUN_FORMAT:
        raise StorageError(
            f"{path} has format {mapping.get('format')!r}, this version goes on with format {RUN_FORMAT}: finish the "
            "run with the version that began it, or give another --out; the model beside it can be used as it is"
        )
    if missing := [field.name for field in fields(Plan) if field.name not in mapping]:
        raise StorageError(f"{path} is damaged: it lacks {', '.join(missing)}")
    config = from_mapping(RunConfig, mapping["config"], str(path), error=StorageError)
    model = read_model_config(config.architecture, mapping["model"], str(path))
    return Plan(**{**{field.name: mapping[field.name] for field in fields(Plan)}, "config": config, "model": model})


def make_plan(request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
    """Read and clean the corpora, learn the subwords, prepare, choose all that is open; write run.json last.

    Raises:
        SettingsError: for a bad setting, before any corpus is read.
        CorpusError: for a bad corpus.
    """
    user = read_settings(request["settings"])
    known = draft(user)
    text = write_clean_text(
        request["corpora"], request["validation"], known.cleaning, known.data, run / "text", console
    )
    console.print(Text(text.report.table()))
    size = CorpusSize(pairs=text.training_pairs, characters=text.characters)
    config = resolve(user, size).run
    with console.status("learning the subwords"):
        tokenizer = build_tokenizer(text, config)
    return_freed_memory()  # hundreds of megabytes
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


def _refuse_changed(name: str, begun: dict[str, Any], now: dict[str, Any]) -> None:
    """A file is what it was if size and time say so; if only the time differs, its bytes decide.

    Raises:
        CorpusError: when it is another one.
    """
    if begun["size"] == now["size"] and (begun["modified"] == now["modified"] or begun["sha256"] == _sha256(name)):
        return
    raise CorpusError(
        f"{name} has changed since this run began ({begun['size']:,} bytes then, {now['size']:,} now): put the former "
        "file back to go on, or give another --out to train on the new one"
    )


def _sha256(path: str) -> str:
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
