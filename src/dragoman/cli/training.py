"""Training as `dragoman train` and `dragoman images train` run it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def train_and_report(corpora: Sequence[str], out: Path, validation: str | None, settings: Mapping[str, Any]) -> None:
    """Train, then print the result and the next commands; exit with 128 + signal if a signal stops the training.

    Args:
        corpora: corpora to train on, or a folder of pictures.
        out: the model directory.
        validation: corpus to validate on; None to hold out a share.
        settings: settings of a run file.
    """
    from rich.console import Console

    from dragoman.run.summary import end_summary
    from dragoman.run.tasks.table import DEFAULT_TASK, task_named
    from dragoman.run.train import train
    from dragoman.training.stopping import TrainingStopped

    console = Console(stderr=True, soft_wrap=True)
    task = task_named(settings.get("task", DEFAULT_TASK))
    try:
        outcome = train(corpora, out, validation=validation, settings=settings, console=console)
    except TrainingStopped as stopped:
        console.print(f"{stopped}; the state is saved: repeat the command to resume", highlight=False)
        sys.exit(128 + stopped.signal_number)
    print(end_summary(outcome, out, task))
