"""Display of training on a terminal: a live line, and a row for every validation."""

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
    """Observer that shows training on a console; without a terminal, it prints only rows and warnings.

    Args:
        console: the console.
        counted: what the rate of training counts, such as "target tokens".
    """

    def __init__(self, console: Console, counted: str) -> None:
        self._console = console
        self._counted = counted
        self._last_report = time.monotonic()
        self._header_shown = False
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.percentage:>5.1f}%  {task.fields[values]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", total=1.0, values="starting")

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

    def on_step(self, step: int, progress: float, values: dict[str, float], seconds_left: float | None) -> None:
        """Update the live line."""
        now = time.monotonic()
        rate = values["target_tokens"] / max(now - self._last_report, 1e-9)
        self._last_report = now
        line = f"update {step:,}  loss {values['loss']:.3f}  {rate:,.0f} {self._counted}/s"
        if seconds_left is not None:
            line += f"  {timedelta(seconds=round(seconds_left))} left"
        self._progress.update(self._task, completed=progress, values=line)

    def on_validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Print a row of metrics, and two example outputs."""
        values = {METRICS[name]: value for name, value in validation.values().items()}
        if not self._header_shown:
            headings = " ".join(metric.column_heading() for metric in values)
            self._console.print(f"{'update':>8} {'minutes':>8} {headings}", style="bold")
            self._header_shown = True
        cells = " ".join(metric.column_value(value) for metric, value in values.items())
        self._console.print(
            f"{step:>8,} {seconds / 60:>8.1f} {cells}{'  best so far' if best else ''}", highlight=False
        )
        for sample in validation.samples[:2]:
            self._console.print(
                Text(f"         {printable(sample.source)}  →  {printable(sample.output)}"),
                style="dim",
                overflow="ellipsis",
                no_wrap=True,
            )
        # The time of the validation must not count towards the rate of training.
        self._last_report = time.monotonic()

    def on_warning(self, step: int, message: str) -> None:
        """Print a warning."""
        self._console.print(Text(f"update {step:,}: {printable(message)}"), style="yellow")
