"""A run with every choice made, so that it can go on after any interruption: run/run.json."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from dragoman.data.readers import parse_corpus
from dragoman.errors import UserError
from dragoman.files import write_atomically
from dragoman.models.config import TransformerConfig
from dragoman.run.config import RunConfig, choose_by_budget, choose_by_size, merge, model_config
from dragoman.run.preparation import build_corpus, build_tokenizer, write_clean_text
from dragoman.settings import differences, from_mapping, to_mapping

RUN_FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A run with every choice made: what run.json holds."""

    request: dict[str, Any]
    config: RunConfig
    model: TransformerConfig
    training_pairs: int
    validation_pairs: int
    trained_length: int
    format: int = RUN_FORMAT


def make_request(corpora: Sequence[str], validation: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the user asked for, with the size of every file: the same request goes on with the same run."""
    if not corpora:
        raise UserError("name at least one corpus to train on")
    named = [*corpora, validation] if validation is not None else corpora
    paths = [Path(path) for name in named for path in parse_corpus(name).paths]
    sizes = {str(path): path.stat().st_size for path in paths if path.is_file()}
    return {
        "corpora": list(corpora),
        "validation": validation,
        "file_sizes": sizes,
        "settings": json.loads(json.dumps(settings)),
    }


def find_plan(run: Path, request: dict[str, Any]) -> Plan | None:
    """The plan that an earlier call with the same request wrote; None when there is no run yet.

    Raises:
        UserError: when the run there was asked for differently, or run.json is damaged.
    """
    path = run / "run.json"
    if not path.exists():
        return None
    try:
        mapping = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{path} is damaged: {error}") from error
    changed = differences(mapping.get("request", {}), request)
    if changed:
        raise UserError(
            f"{run.parent} holds a run with other settings:\n  "
            + "\n  ".join(changed)
            + "\ngive the same command to go on with it, or another --out to start anew"
        )
    return Plan(
        request=request,
        config=from_mapping(RunConfig, mapping["config"], str(path)),
        model=from_mapping(TransformerConfig, mapping["model"], str(path)),
        **{name: mapping[name] for name in ("training_pairs", "validation_pairs", "trained_length", "format")},
    )


def make_plan(request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
    """Read and clean the corpora, learn the subwords, prepare, choose all that is open; write run.json last.

    Raises:
        UserError: for a bad setting (before any corpus is read) or a bad corpus.
    """
    user = request["settings"]
    draft = _check(user)
    text = write_clean_text(
        request["corpora"], request["validation"], draft.cleaning, draft.data, run / "text", console
    )
    console.print(text.report.table(), highlight=False)
    by_size = choose_by_size(text.training_pairs, text.characters)
    config, _ = _resolve(user, by_size, text.training_pairs, target_tokens=0)
    with console.status("learning the subwords"):
        tokenizer = build_tokenizer(text, config)
    tokenizer.save(out)
    corpus = build_corpus(text, tokenizer, config, run / "prepared", console)
    config, model = _resolve(user, by_size, text.training_pairs, corpus.meta.target_tokens)
    plan = Plan(
        request=request,
        config=config,
        model=model_config(config, model, tokenizer.source_size, tokenizer.target_size),
        training_pairs=len(corpus),
        validation_pairs=text.validation_pairs,
        trained_length=int(max(corpus.source_lengths.max(), 1)),
    )
    write_atomically(run / "run.json", (json.dumps(to_mapping(plan), indent=2) + "\n").encode())
    return plan


def _check(user: Mapping[str, Any]) -> RunConfig:
    """Check the user's settings before any corpus is read: a misspelt key must not cost minutes."""
    training = user.get("training", {})
    given = isinstance(training, Mapping) and ("steps" in training or "minutes" in training)
    # A peak suits every schedule.
    neutral = {"schedule": {"peak_learning_rate": 0.001}, "training": {} if given else {"steps": 1}}
    layered = merge(choose_by_size(0), neutral, user)
    overrides = layered.pop("model", {})
    config = from_mapping(RunConfig, layered, "the settings")
    model_config(config, overrides, source_vocabulary=1000, target_vocabulary=1000)
    return config


def _resolve(
    user: Mapping[str, Any], by_size: Mapping[str, Any], pairs: int, target_tokens: int
) -> tuple[RunConfig, dict[str, Any]]:
    """The user's settings over what suits the corpus and the budget; and the [model] table."""
    layered = merge(by_size, user)
    training = layered.get("training", {})
    update_tokens = layered["batching"]["batch_tokens"] * training.get("accumulate", 1)
    by_budget = choose_by_budget(pairs, target_tokens // update_tokens, training)
    layered = merge(by_size, by_budget, user)
    overrides = layered.pop("model", {})
    return from_mapping(RunConfig, layered, "the settings"), overrides
