"""From corpora to a model directory, resumable at any moment."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor

from dragoman.data.prepared import PreparedCorpus
from dragoman.device import Precision, deterministic_algorithms, select_device, select_precision, tune_cpu
from dragoman.errors import ModelError, StorageError
from dragoman.files import exclusive, full_disk_explained, write_atomically
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of, build_model
from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.storage import save_model
from dragoman.printing import printable
from dragoman.run.model_card import model_card
from dragoman.run.plan import Plan, find_plan, make_plan, make_request
from dragoman.run.preparation import VALIDATION_TEXT, validation_sample
from dragoman.run.summary import opening
from dragoman.run.validator import SCORES, Validator
from dragoman.text.tokenizer import Tokenizer
from dragoman.training.compiling import compile_layers
from dragoman.training.display import Display
from dragoman.training.loop import Trainer
from dragoman.training.progress import Outcome
from dragoman.training.reporting import Observer
from dragoman.training.selection import KeepBest
from dragoman.training.stream import BatchStream
from dragoman.training.tensorboard import TensorBoard
from dragoman.training.translation_objective import TranslationObjective
from dragoman.training.validation import Validation


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
    request = make_request(corpora, validation, settings or {})
    run = out / "run"
    _refuse_other_contents(out, run)
    with full_disk_explained(_existing(out)), exclusive(run):
        plan = find_plan(run, request)
        if plan is None:
            with _nothing_left_on_failure(out, run):
                plan = make_plan(request, out, run, console)
        else:
            console.print(Text(f"going on with the run in {printable(out)}"))
        return _train(plan, out, console)


def _existing(path: Path) -> Path:
    """Return the path, or the nearest folder above it that exists."""
    path = path.absolute()
    return next(each for each in (path, *path.parents) if each.exists())


@contextmanager
def _nothing_left_on_failure(out: Path, run: Path) -> Iterator[None]:
    """Before run.json is written, there is nothing that a later call could go on with.

    Only what this program writes is removed, and the folders if they are empty then.
    """
    try:
        yield
    except BaseException:
        for part in ("text", "prepared"):
            shutil.rmtree(run / part, ignore_errors=True)
        # The lock last: without it, what an interrupt leaves here would be taken for somebody's files.
        for file in (*out.glob("tokenizer*.model"), run / "lock"):
            file.unlink(missing_ok=True)
        for folder in (run, out):
            with suppress(OSError):
                folder.rmdir()
        raise


def _refuse_other_contents(out: Path, run: Path) -> None:
    """Never write among files that are not ours."""
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file: give another --out")
    if out.exists() and any(out.iterdir()) and not (run / "lock").exists():
        raise StorageError(f"{out} holds other files, not a run: give another --out")


def _train(plan: Plan, out: Path, console: Console) -> Outcome:
    run, config = out / "run", plan.config
    device = select_device(config.training.device)
    precision = select_precision(config.training.precision, device)
    if device.type == "cpu":
        tune_cpu()
    tokenizer, corpus = _open(plan, out)
    model = _build_model(plan, device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(opening(plan, parameters, device, precision), highlight=False)
    with Display(console) as display:
        observers: list[Observer] = [display]
        if config.training.tensorboard:
            observers.append(TensorBoard(run / "tensorboard"))
        trainer = Trainer(
            model,
            _objective(plan, run, tokenizer, corpus, precision),
            config=config.training,
            schedule=config.schedule,
            d_model=plan.model.d_model,
            precision=precision,
            directory=run,
            keep_best=_keeper(plan, out, tokenizer, parameters),
            observers=observers,
        )
        with _curves_drawn(run), deterministic_algorithms(config.training.deterministic):
            return trainer.run()


@contextmanager
def _curves_drawn(run: Path) -> Iterator[None]:
    """Draw the learning curves when training has ended, stopped or failed; not when a second signal breaks it off."""
    try:
        yield
    except Exception:
        _draw_curves(run)
        raise
    _draw_curves(run)


def _draw_curves(run: Path) -> None:
    if (run / "log.jsonl").exists():
        # Not before: what draws takes 40 MB, which training need not carry.
        from dragoman.training.curves import draw_curves

        draw_curves(run / "log.jsonl", run / "curves.png")


def _open(plan: Plan, out: Path) -> tuple[Tokenizer, PreparedCorpus]:
    tokenizer = Tokenizer.load(out, right_to_left=plan.config.tokenizer.right_to_left)
    prepared = out / "run" / "prepared"
    corpus = PreparedCorpus.open(prepared)
    if tokenizer.vocabulary_hash != corpus.meta.vocabulary_hash:
        raise ModelError(f"the tokenizer in {out} is not the one that {prepared} was made with: put it back")
    return tokenizer, corpus


def _build_model(plan: Plan, device: torch.device) -> Seq2Seq:
    training = plan.config.training
    torch.manual_seed(training.seed)
    model = build_model(plan.model).to(device)
    if training.compile == "on" or (training.compile == "auto" and device.type == "cuda"):
        compile_layers(model)
    return model


def _objective(
    plan: Plan, run: Path, tokenizer: Tokenizer, corpus: PreparedCorpus, precision: Precision
) -> TranslationObjective:
    config = plan.config
    validator = Validator(
        validation_sample(run / "text" / VALIDATION_TEXT, plan.validation_pairs, config.data.validation_pairs),
        tokenizer,
        max_length=config.data.max_length,
        batch_tokens=config.batching.batch_tokens,
        precision=precision,
        target_language=config.target_language,
    )
    return TranslationObjective(
        config.training.label_smoothing,
        BatchStream(corpus, tokenizer, config.batching, config.training.seed, config.training.subword_sampling),
        validator,
        metrics=tuple(SCORES),
        validation_tokens=_validated_pairs(plan) * corpus.meta.target_tokens // len(corpus),
    )


def _keeper(plan: Plan, out: Path, tokenizer: Tokenizer, parameters: int) -> KeepBest:
    """Return what writes the best model so far, its card and its figures."""
    description = ModelDescription(
        architecture=architecture_of(plan.model),
        model=plan.model,
        trained_length=plan.trained_length,
        source_language=plan.config.source_language,
        target_language=plan.config.target_language,
        vocabulary_hash=tokenizer.vocabulary_hash,
        right_to_left=tokenizer.right_to_left,
    )

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
            "validation": {**best.values(), "pairs": _validated_pairs(plan), **best.figures_to_json()},
        }
        write_atomically(out / "metrics.json", (json.dumps(figures, indent=2) + "\n").encode())

    return keep_best


def _validated_pairs(plan: Plan) -> int:
    return min(plan.validation_pairs, plan.config.data.validation_pairs)
