"""Reports of a run to its log and to observers, such as the live display and TensorBoard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.training.events import EventLog
from dragoman.training.progress import RunState
from dragoman.training.validation import Validation


class Observer(Protocol):
    """Interface of a display or record of training."""

    def on_step(self, step: int, progress: float, values: dict[str, float], seconds_left: float | None) -> None:
        """Called after every `loop.LOG_EVERY` updates.

        Args:
            step: number of updates made.
            progress: spent fraction of the budget, 0 to 1.
            values: loss, learning rate, target tokens and elapsed seconds.
            seconds_left: estimated remaining time; None if it is unknown.
        """

    def on_validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Called after each validation.

        Args:
            step: number of updates made.
            seconds: time spent on training.
            validation: the result of the validation.
            best: True if it is the best so far.
        """

    def on_warning(self, step: int, message: str) -> None:
        """Called after each problem that training has recovered from."""


@dataclass(frozen=True)
class Reporter:
    """Passes reports to the log and to all observers.

    Attributes:
        log: the log of the run.
        observers: receive every report.
        state: the run.
    """

    log: EventLog
    observers: Sequence[Observer]
    state: RunState

    def report_step(self, values: dict[str, float], progress: float, seconds_left: float | None) -> None:
        """Report the updates since the previous call; see `Observer.on_step`."""
        step = self.state.progress.step
        self.log.append({"event": "step", "step": step, **values})
        for observer in self.observers:
            observer.on_step(step, progress, values, seconds_left)

    def report_validation(self, validation: Validation, *, best: bool, of_average: bool) -> None:
        """Report a validation.

        Args:
            validation: the result of the validation.
            best: True if it is the best so far.
            of_average: True if the average of the last checkpoints was validated, not the current weights.
        """
        step = self.state.progress.step
        self.log.append(
            {
                "event": "validation",
                "step": step,
                **validation.values(),
                "elapsed": self.state.seconds(),
                **validation.token_statistics_to_json(),
                **({"average": True} if of_average else {}),
            }
        )
        for observer in self.observers:
            observer.on_validation(step, self.state.seconds(), validation, best)

    def report_problem(self, event: str, step: int, message: str) -> None:
        """Log a problem with an update as an event of kind `event`, and warn the observers."""
        self.log.append({"event": event, "step": step, "message": message})
        self.warn(message)

    def warn(self, message: str) -> None:
        """Pass a warning to the observers; it is not logged."""
        for observer in self.observers:
            observer.on_warning(self.state.progress.step, message)
