"""The budget of a run: how much of it is spent, and when to validate."""

from dataclasses import dataclass

from dragoman.training.config import TrainingConfig
from dragoman.training.progress import RunState


@dataclass(frozen=True)
class Budget:
    """Number of updates or minutes of a run, with validations at regular intervals.

    Attributes:
        config: contains the budget and the number of validations.
        state: the run.
    """

    config: TrainingConfig
    state: RunState

    def fraction_spent(self) -> float:
        """Return the spent fraction of the budget, 0 to 1."""
        if self.config.steps is not None:
            return min(self.state.progress.step / self.config.steps, 1.0)
        assert self.config.minutes is not None
        return min(self.state.seconds() / (60 * self.config.minutes), 1.0)

    def validation_due(self) -> bool:
        """Return whether to validate now."""
        return self.fraction_spent() * self.config.validations >= self.state.progress.validations + 1

    def validations_passed(self) -> int:
        """Return the number of validations that are done or skipped once the current one has ended.

        If more than one interval of a wall-clock budget has passed since the last validation, one validation counts for
        all of them.
        """
        return max(self.state.progress.validations + 1, int(self.fraction_spent() * self.config.validations))

    def validations_left(self) -> int:
        """Return the number of remaining validations."""
        return self.config.validations - self.state.progress.validations

    def out_of_patience(self) -> bool:
        """Return whether `patience` validations in a row were no improvement."""
        return 0 < self.config.patience <= self.state.progress.since_best

    def finished(self) -> bool:
        """Return whether training is complete.

        It is complete only after a validation, so that the final weights are validated.
        """
        return self.out_of_patience() or self.validations_left() <= 0
