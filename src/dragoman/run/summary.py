"""The summaries that `train` prints before and after training."""

from pathlib import Path

import torch

from dragoman.printing import printable
from dragoman.run.plan import Plan
from dragoman.training.events import number_of, read_events
from dragoman.training.metrics import headline
from dragoman.training.progress import Outcome
from dragoman.training.sparkline import sparkline


def opening(plan: Plan, parameters: int, device: torch.device, precision: str) -> str:
    """Return what will be trained, on what, for how long."""
    config, model = plan.config, plan.model
    budget = (
        f"{config.training.minutes:g} minutes"
        if config.training.minutes is not None
        else f"{config.training.steps:,} updates"
    )
    return (
        f"{plan.training_pairs:,} pairs to train on, {plan.validation_pairs:,} to validate on\n"
        f"{config.architecture}, preset {config.preset}: {model.shape()}, dropout {model.dropout:g}, "
        f"{model.target_vocabulary:,} subwords, {parameters / 1e6:.1f} M parameters\n"
        f"{device.type} ({torch.get_num_threads()} threads) in {precision}, batches of "
        f"{config.batching.batch_tokens:,} tokens, for {budget}"
    )


def closing(outcome: Outcome, out: Path) -> str:
    """Return how the run in `out` went, and what to do next.

    Raises:
        StorageError: when its log cannot be read.
    """
    why = ", stopped early: no better for a while" if outcome.stopped_early else ""
    if outcome.skipped:
        back = f", {outcome.rollbacks} returns to a checkpoint" if outcome.rollbacks else ""
        why += f"; {outcome.skipped} updates not applied, as they were not finite{back}"
    shown = printable(out)
    metric = headline(outcome.best.values())
    events = read_events(out / "run" / "log.jsonl")
    course = [number_of(event, metric.name) for event in events if event["event"] == "validation"]
    return (
        f"trained {outcome.steps:,} updates in {outcome.seconds / 60:.1f} minutes{why}\n"
        f"best at update {outcome.best_step:,}: validation {outcome.best.sentence()}\n"
        f"model:  {shown}\n"
        f"curves: {printable(out / 'run' / 'curves.png')}   {metric.label} {sparkline(course)}\n"
        f"next:   dragoman translate {shown} FILE\n"
        f"        dragoman evaluate {shown} TEST.tsv --examples 10"
    )
