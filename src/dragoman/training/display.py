"""What a person sees while a model trains: one live line, and a row for every validation."""

import time
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from dragoman.printing import printable
from dragoman.training.metrics import METRICS
from dragoman.training.validation import Validation


class Display:
    """Shows training on a terminal; elsewhere it prints the validation rows only."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_report = time.monotonic()
        self._header_shown = False
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%  {task.fields[figures]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", total=1.0, figures="starting")

    def __enter__(self) -> Self:
        self._progress.start()
        self._last_report = time.monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def step(self, step: int, progress: float, figures: dict[str, float], seconds_left: float | None) -> None:
        """Move the live line on."""
        now = time.monotonic()
        rate = figures["target_tokens"] / max(now - self._last_report, 1e-9)
        self._last_report = now
        shown = f"update {step:,}  loss {figures['loss']:.3f}  {rate:,.0f} target tokens/s"
        if seconds_left is not None:
            shown += f"  {timedelta(seconds=round(seconds_left))} left"
        self._progress.update(self._task, completed=progress, figures=shown)

    def validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Print a row, and two outputs to look at."""
        values = {METRICS[name]: value for name, value in validation.values().items()}
        if not self._header_shown:
            heads = " ".join(metric.head() for metric in values)
            self._console.print(f"{'update':>8} {'minutes':>8} {heads}", style="bold")
            self._header_shown = True
        cells = " ".join(metric.cell(value) for metric, value in values.items())
        self._console.print(
            f"{step:>8,} {seconds / 60:>8.1f} {cells}{'  best so far' if best else ''}", highlight=False
        )
        for sample in validation.samples[:2]:
            self._console.print(
                Text(f"         {printable(sample.given)}  →  {printable(sample.output)}"),
                style="dim",
                overflow="ellipsis",
                no_wrap=True,
            )
        # Validation is not training: the rate must not count its time.
        self._last_report = time.monotonic()

    def trouble(self, step: int, message: str) -> None:
        """Print what went wrong and was dealt with."""
        self._console.print(Text(f"update {step:,}: {printable(message)}"), style="yellow")
