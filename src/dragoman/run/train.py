"""Training from corpora to a model directory, which can be resumed after any interruption."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor, nn

from dragoman.device import deterministic_algorithms, select_device, select_precision, tune_cpu
from dragoman.errors import SettingsError, StorageError
from dragoman.files import exclusive, explain_full_disk, write_atomically
from dragoman.models.description import CONFIDENCE_FILE
from dragoman.models.registry import build_any
from dragoman.models.storage import save_model
from dragoman.printing import printable
from dragoman.run.plan import Plan, find_plan, make_request
from dragoman.run.summary import start_summary
from dragoman.run.tasks.table import DEFAULT_TASK, task_named
from dragoman.run.tasks.task import OpenedRun, Task
from dragoman.run.text_preparation import DIRECTORIES
from dragoman.threads import SpinControl
from dragoman.training.compiling import Compilable, compile_layers
from dragoman.training.display import Display
from dragoman.training.loop import Trainer
from dragoman.training.progress import TrainingResult
from dragoman.training.reporting import Observer
from dragoman.training.selection import SaveBest
from dragoman.training.tensorboard import TensorBoard
from dragoman.training.validation import Validation


def train(
    corpora: Sequence[str],
    out: Path,
    *,
    validation: str | None = None,
    settings: Mapping[str, Any] | None = None,
    console: Console | None = None,
) -> TrainingResult:
    """Train a model and save it in a model directory; resume the training if it was interrupted.

    Example:
        ```python
        from pathlib import Path

        import dragoman

        result = dragoman.train(
            ["corpus.tsv"],
            Path("models/mine"),
            settings={"preset": "small", "training": {"minutes": 5}},
        )
        print(result.best["bleu"])
        ```

    Args:
        corpora: Corpora as on the command line: "x.tsv", "x.jsonl" (also with .gz or .zst), two parallel files
            "a.en,a.de", or "-" for TSV from standard input. For tasks on running text: text files, folders, "x.jsonl".
        out: The model directory. Its subdirectory run/ contains what is needed to resume the training.
        validation: Corpus to validate on. None: a part of the corpora is held out.
        settings: Settings of a run file, as nested mappings; see `RunConfig`, and `TextRunConfig` for a `task` on
            running text. The defaults depend on the size of the corpus and on the budget.
        console: Shows the progress. Defaults to standard error.

    Returns:
        The result of the run, with its best validation.

    Raises:
        UserError: for an invalid corpus or setting, or if `out` contains other files.
        TrainingStopped: after SIGINT or SIGTERM, when the state has been saved; the same call resumes the training.
    """
    console = console or Console(stderr=True, soft_wrap=True)
    settings = settings or {}
    task = task_named(settings.get("task", DEFAULT_TASK))
    if not corpora:
        raise SettingsError("give at least one corpus to train on")
    files = task.files([*corpora, *([] if validation is None else [validation])])
    request = make_request(corpora, validation, settings, files)
    run = out / "run"
    _check_output_directory(out, run)
    with explain_full_disk(_nearest_existing(out)), exclusive(run):
        plan = find_plan(run, request)
        if plan is None:
            with _remove_partial_output_on_failure(out, run):
                plan = task.prepare(request, out, run, console)
        else:
            console.print(Text(f"resuming the run in {printable(out)}"))
        return _train(plan, out, console)


def _nearest_existing(path: Path) -> Path:
    """Return the path if it exists, or else its nearest parent directory that exists."""
    path = path.absolute()
    return next(candidate for candidate in (path, *path.parents) if candidate.exists())


@contextmanager
def _remove_partial_output_on_failure(out: Path, run: Path) -> Iterator[None]:
    """Remove the output of the block if it fails: a run without run.json cannot be resumed.

    Only files that this program writes are removed, and the directories if they are empty afterwards.
    """
    try:
        yield
    except BaseException:
        for name in DIRECTORIES:
            shutil.rmtree(run / name, ignore_errors=True)
        # The lock is removed last: it shows that the files were written by this program.
        for file in (*out.glob("tokenizer*.model"), run / "lock"):
            file.unlink(missing_ok=True)
        for directory in (run, out):
            with suppress(OSError):
                directory.rmdir()
        raise


def _check_output_directory(out: Path, run: Path) -> None:
    """Check that `out` does not contain files of the user.

    Raises:
        StorageError: if `out` is a file, or a directory that contains other files than those of a run.
    """
    if out.exists() and not out.is_dir():
        raise StorageError(f"{out} is a file: use another --out")
    if out.exists() and any(out.iterdir()) and not (run / "lock").exists():
        raise StorageError(f"{out} contains other files, not a run: use another --out")


def _train(plan: Plan, out: Path, console: Console) -> TrainingResult:
    run, config = out / "run", plan.config
    device = select_device(config.training.device)
    precision = select_precision(config.training.precision, device)
    if device.type == "cpu":
        tune_cpu()
    task = task_named(config.task)
    opened = task.open(plan, out, precision)
    model = _build_model(plan, task, device)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    console.print(start_summary(plan, task, parameters, device, precision), highlight=False)
    with Display(console, config.counted) as display:
        observers: list[Observer] = [display]
        if config.training.tensorboard:
            observers.append(TensorBoard(run / "tensorboard"))
        trainer: Trainer[nn.Module, Any] = Trainer(
            model,
            opened.objective,
            config=config.training,
            schedule=config.schedule,
            d_model=plan.model.d_model,
            precision=precision,
            directory=run,
            save_best=_best_model_writer(opened, out, parameters),
            observers=observers,
        )
        waiting = SpinControl(trainer.reporter.warn).watching() if device.type == "cpu" else nullcontext()
        with _draw_curves_at_end(run), deterministic_algorithms(config.training.deterministic), waiting:
            return trainer.run()


@contextmanager
def _draw_curves_at_end(run: Path) -> Iterator[None]:
    """Draw the learning curves when training has ended, was stopped, or has failed; not after a second stop signal."""
    try:
        yield
    except Exception:
        _draw_curves(run)
        raise
    _draw_curves(run)


def _draw_curves(run: Path) -> None:
    if (run / "log.jsonl").exists():
        # Imported here, because it takes 40 MB of memory, which training does not need.
        from dragoman.training.curves import draw_curves

        draw_curves(run / "log.jsonl", run / "curves.png")


def _build_model(plan: Plan, task: Task, device: torch.device) -> nn.Module:
    training = plan.config.training
    torch.manual_seed(training.seed)
    model = build_any(plan.model)
    task.initialise(plan, model)
    model.to(device)
    if training.compile == "on" or (training.compile == "auto" and device.type == "cuda"):
        assert isinstance(model, Compilable)
        compile_layers(model)
    return model


def _best_model_writer(opened: OpenedRun, out: Path, parameters: int) -> SaveBest:
    """Return the function that writes the best model so far, its model card, and metrics.json."""

    def save_best(weights: dict[str, Tensor], step: int, best: Validation) -> None:
        # It was fitted to the outputs of the weights that are replaced.
        (out / CONFIDENCE_FILE).unlink(missing_ok=True)
        save_model(out, opened.description, weights)
        write_atomically(out / "README.md", opened.model_card(parameters, step, best).encode())
        metrics = {
            "step": step,
            "parameters": parameters,
            "validation": {**best.values(), **opened.validated, **best.token_statistics_to_json()},
        }
        write_atomically(out / "metrics.json", (json.dumps(metrics, indent=2) + "\n").encode())

    return save_best
