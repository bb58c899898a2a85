"""How much of a run is spent, and what is due."""

from dataclasses import dataclass

from dragoman.training.config import TrainingConfig
from dragoman.training.progress import RunState


@dataclass(frozen=True)
class Budget:
    """Updates or minutes, and validations evenly over them."""

    config: TrainingConfig
    state: RunState

    def spent(self) -> float:
        """Return the share of the budget that is spent, 0 to 1."""
        if self.config.steps is not None:
            return min(self.state.progress.step / self.config.steps, 1.0)
        assert self.config.minutes is not None
        return min(self.state.seconds() / (60 * self.config.minutes), 1.0)

    def validation_due(self) -> bool:
        """Return whether the next validation is to be made now."""
        return self.spent() * self.config.validations >= self.state.progress.validations + 1

    def validations_passed(self) -> int:
        """Return the validations made, this one included: wall clock that passed several marks at once counts all."""
        return max(self.state.progress.validations + 1, int(self.spent() * self.config.validations))

    def validations_left(self) -> int:
        """Return the validations still to be made."""
        return self.config.validations - self.state.progress.validations

    def out_of_patience(self) -> bool:
        """Return whether too many validations in a row were no better."""
        return 0 < self.config.patience <= self.state.progress.since_best

    def finished(self) -> bool:
        """Return whether training ends: with a validation, so that the last weights have been looked at."""
        return self.out_of_patience() or self.validations_left() <= 0
