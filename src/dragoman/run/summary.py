"""Summaries that `dragoman train` prints before and after training."""

from pathlib import Path

import torch

from dragoman.printing import printable
from dragoman.run.plan import Plan
from dragoman.run.tasks.task import Task
from dragoman.training.events import number_of, read_events
from dragoman.training.metrics import headline_metric
from dragoman.training.progress import TrainingResult
from dragoman.training.sparkline import sparkline


def start_summary(plan: Plan, task: Task, parameters: int, device: torch.device, precision: str) -> str:
    """Return the summary before training: corpus, model, device, batches and budget.

    Args:
        plan: the run.
        task: its task.
        parameters: number of parameters of the model.
        device: device of the model.
        precision: precision of training.
    """
    config, model = plan.config, plan.model
    corpus, vocabulary = task.start_lines(plan)
    sizes = [model.shape(), f"dropout {model.dropout:g}", vocabulary, f"{parameters / 1e6:.1f} M parameters"]
    budget = (
        f"{config.training.minutes:g} minutes"
        if config.training.minutes is not None
        else f"{config.training.steps:,} updates"
    )
    return (
        f"{corpus}\n"
        f"{config.architecture}, {printable(config.origin)}: {', '.join(filter(None, sizes))}\n"
        f"{device.type} ({torch.get_num_threads()} threads) in {precision}, batches of "
        f"{config.batch_tokens:,} {config.unit}, for {budget}"
    )


def end_summary(result: TrainingResult, out: Path, task: Task) -> str:
    """Return the summary after training: the result, where it is, and the next commands.

    Args:
        result: result of the run.
        out: the model directory.
        task: the task of the run.

    Raises:
        StorageError: if the log of the run cannot be read.
    """
    notes = "; stopped early, as validations no longer improved" if result.stopped_early else ""
    if result.skipped:
        notes += f"; updates not applied because they were not finite: {result.skipped}"
    if result.rollbacks:
        notes += f"; rollbacks to a checkpoint: {result.rollbacks}"
    model = printable(out)
    metric = headline_metric(result.best.values())
    events = read_events(out / "run" / "log.jsonl")
    values = [number_of(event, metric.name) for event in events if event["event"] == "validation"]
    commands = "\n        ".join(task.next_commands(str(model)))
    return (
        f"trained {result.steps:,} updates in {result.seconds / 60:.1f} minutes{notes}\n"
        f"best at update {result.best_step:,}: validation {result.best.sentence()}\n"
        f"model:  {model}\n"
        f"curves: {printable(out / 'run' / 'curves.png')}   {metric.label} {sparkline(values)}\n"
        f"next:   {commands}"
    )
