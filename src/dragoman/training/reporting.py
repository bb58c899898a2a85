"""Reports of how training goes: to the log, and to observers such as the live display and TensorBoard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dragoman.training.events import EventLog
from dragoman.training.progress import RunState
from dragoman.training.validation import Validation


class Observer(Protocol):
    """Anything that shows or records how training goes."""

    def step(self, step: int, progress: float, figures: dict[str, float], seconds_left: float | None) -> None:
        """Called after every `loop.LOG_EVERY` updates, with their figures and the time left if it is known."""

    def validation(self, step: int, seconds: float, validation: Validation, best: bool) -> None:
        """Called after each validation; `seconds` is the time spent on training."""

    def trouble(self, step: int, message: str) -> None:
        """Called when something went wrong and was dealt with."""


@dataclass(frozen=True)
class Reporter:
    """Tells the log and every observer the same."""

    log: EventLog
    observers: Sequence[Observer]
    state: RunState

    def step(self, figures: dict[str, float], spent: float, seconds_left: float | None) -> None:
        """Report the updates since the last such report."""
        step = self.state.progress.step
        self.log.append({"event": "step", "step": step, **figures})
        for observer in self.observers:
            observer.step(step, spent, figures, seconds_left)

    def validation(self, validation: Validation, *, best: bool, of_average: bool) -> None:
        """Report a validation: of the present weights, or of the average of the last checkpoints'."""
        step = self.state.progress.step
        self.log.append(
            {
                "event": "validation",
                "step": step,
                **validation.values(),
                "elapsed": self.state.seconds(),
                **validation.figures_to_json(),
                **({"average": True} if of_average else {}),
            }
        )
        for observer in self.observers:
            observer.validation(step, self.state.seconds(), validation, best)

    def trouble(self, event: str, step: int, message: str) -> None:
        """Report what went wrong with an update, in the log too."""
        self.log.append({"event": event, "step": step, "message": message})
        self.tell(message)

    def tell(self, message: str) -> None:
        """Tell the observers what went wrong and was dealt with."""
        for observer in self.observers:
            observer.trouble(self.state.progress.step, message)
