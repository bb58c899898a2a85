"""From corpora to a model directory, resumable at any moment."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor

from dragoman.data.prepared import PreparedCorpus
from dragoman.data.readers import parse_corpus
from dragoman.data.tokenizer import Tokenizer
from dragoman.device import choose_device, choose_precision
from dragoman.errors import UserError
from dragoman.files import exclusive, write_atomically
from dragoman.models.config import TransformerConfig
from dragoman.models.storage import ModelDescription, save_model
from dragoman.models.transformer import build_transformer
from dragoman.run.config import RunConfig, choose_by_budget, choose_by_size, merge, model_config
from dragoman.run.model_card import model_card
from dragoman.run.preparation import (
    VALIDATION_TEXT,
    build_corpus,
    build_tokenizer,
    validation_sample,
    write_clean_text,
)
from dragoman.run.validator import Validator
from dragoman.settings import differences, from_mapping, to_mapping
from dragoman.training.compiling import compile_layers
from dragoman.training.curves import draw_curves
from dragoman.training.display import Display
from dragoman.training.loop import Observer, Trainer
from dragoman.training.position import Outcome, Validation
from dragoman.training.stream import BatchStream
from dragoman.training.tensorboard import TensorBoard

RUN_FORMAT = 1


def train(
    corpora: Sequence[str],
    out: Path,
    *,
    validation: str | None = None,
    settings: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> Outcome:
    """Train a model on `corpora` into the model directory `out`; go on if it was interrupted.

    Args:
        corpora: as on the command line: x.tsv, x.jsonl (.gz, .zst), "a.en,a.de", or "-".
        out: takes the model, and under run/ everything that training needs to go on.
        validation: a corpus to validate on; without it a share is split off by hash.
        settings: what a run file says, as nested mappings. Where it is silent, the size of the corpus
            decides.
        console: where progress is shown.

    Raises:
        UserError: for a bad corpus or setting, or when `out` holds something else.
        Stopped: on SIGINT or SIGTERM, after saving; the same call goes on.
    """
    console = console or Console(stderr=True, soft_wrap=True)
    request = _request(corpora, validation, settings or {})
    run = out / "run"
    _refuse_other_contents(out, run)
    with exclusive(run):
        plan = _find_plan(run, request)
        if plan is None:
            plan = _make_plan(request, out, run, console)
        else:
            console.print(f"going on with the run in {out}", highlight=False)
        return _train(plan, out, run, console)


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


def _request(corpora: Sequence[str], validation: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
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


def _find_plan(run: Path, request: dict[str, Any]) -> Plan | None:
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


def _refuse_other_contents(out: Path, run: Path) -> None:
    """Never write among files that are not ours."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: give another --out")
    if out.exists() and any(out.iterdir()) and not run.is_dir():
        raise UserError(f"{out} holds other files, not a run: give another --out")


def _make_plan(request: dict[str, Any], out: Path, run: Path, console: Console) -> Plan:
    user = request["settings"]
    draft = _check(user)
    text = write_clean_text(
        request["corpora"], request["validation"], draft.cleaning, draft.data, run / "text", console
    )
    console.print(text.report.table(), highlight=False)
    config, _ = _resolve(user, text.training_pairs, target_tokens=0)
    with console.status("learning the subwords"):
        tokenizer = build_tokenizer(text, config)
    tokenizer.save(out)
    corpus = build_corpus(text, tokenizer, config, run / "prepared", console)
    config, model = _resolve(user, text.training_pairs, corpus.meta.target_tokens)
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


def _resolve(user: Mapping[str, Any], pairs: int, target_tokens: int) -> tuple[RunConfig, dict[str, Any]]:
    """The user's settings over what suits the corpus and the budget; and the [model] table."""
    layered = merge(choose_by_size(pairs), user)
    training = layered.get("training", {})
    update_tokens = layered["batching"]["batch_tokens"] * training.get("accumulate", 1)
    by_budget = choose_by_budget(pairs, target_tokens // update_tokens, training)
    layered = merge(choose_by_size(pairs), by_budget, user)
    overrides = layered.pop("model", {})
    return from_mapping(RunConfig, layered, "the settings"), overrides


def _train(plan: Plan, out: Path, run: Path, console: Console) -> Outcome:
    config = plan.config
    device = choose_device(config.training.device)
    precision = choose_precision(config.training.precision, device)
    tokenizer = Tokenizer.load(out)
    corpus = PreparedCorpus.open(run / "prepared")
    torch.manual_seed(config.training.seed)
    model = build_transformer(plan.model).to(device)
    if config.training.compile == "on" or (config.training.compile == "auto" and device.type == "cuda"):
        compile_layers(model)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    description = ModelDescription(
        architecture="transformer",
        model=plan.model,
        trained_length=plan.trained_length,
        source_language=config.source_language,
        target_language=config.target_language,
    )
    console.print(_summary(plan, parameters, device, precision), highlight=False)

    def keep_best(weights: dict[str, Tensor], step: int, best: Validation) -> None:
        save_model(out, description, weights)
        card = model_card(
            description,
            corpora=plan.request["corpora"],
            training_pairs=plan.training_pairs,
            parameters=parameters,
            step=step,
            validation=best,
        )
        write_atomically(out / "README.md", card.encode())
        figures = {
            "step": step,
            "parameters": parameters,
            "validation": {
                "loss": best.loss,
                "perplexity": best.perplexity,
                "bleu": best.bleu,
                "chrf": best.chrf,
                "pairs": min(plan.validation_pairs, config.data.validation_pairs),
            },
        }
        write_atomically(out / "metrics.json", (json.dumps(figures, indent=2) + "\n").encode())

    with Display(console) as display:
        observers: list[Observer] = [display]
        if config.training.tensorboard:
            observers.append(TensorBoard(run / "tensorboard"))
        trainer = Trainer(
            model,
            BatchStream(corpus, tokenizer, config.batching, config.training.seed, config.training.subword_sampling),
            config=config.training,
            schedule=config.schedule,
            d_model=plan.model.d_model,
            precision=precision,
            directory=run,
            validate=Validator(
                validation_sample(run / "text" / VALIDATION_TEXT, plan.validation_pairs, config.data.validation_pairs),
                tokenizer,
                max_length=config.data.max_length,
                batch_tokens=config.batching.batch_tokens,
                precision=precision,
                target_language=config.target_language,
            ),
            keep_best=keep_best,
            observers=observers,
        )
        try:
            return trainer.run()
        finally:
            if (run / "log.jsonl").exists():
                draw_curves(run / "log.jsonl", run / "curves.png")


def _summary(plan: Plan, parameters: int, device: torch.device, precision: str) -> str:
    config, model = plan.config, plan.model
    budget = (
        f"{config.training.minutes:g} minutes"
        if config.training.minutes is not None
        else f"{config.training.steps:,} updates"
    )
    return (
        f"{plan.training_pairs:,} pairs to train on, {plan.validation_pairs:,} to validate on\n"
        f"preset {config.preset}: {model.encoder_layers} + {model.decoder_layers} layers, d_model "
        f"{model.d_model}, {model.heads} heads, d_ff {model.d_ff}, dropout {model.dropout:g}, "
        f"{model.target_vocabulary:,} subwords, {parameters / 1e6:.1f} M parameters\n"
        f"{device.type} ({torch.get_num_threads()} threads) in {precision}, batches of "
        f"{config.batching.batch_tokens:,} tokens, for {budget}"
    )
