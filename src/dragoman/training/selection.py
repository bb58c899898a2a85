"""Validations, and the choice of the best weights."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

from torch import Tensor

from dragoman.models.storage import set_weights, weights_of
from dragoman.training.budget import Budget
from dragoman.training.checkpoint import average_states, checkpoint_path, load_checkpoint
from dragoman.training.objective import B, M, Objective
from dragoman.training.progress import RunState
from dragoman.training.reporting import Reporter
from dragoman.training.stopping import StopRequest
from dragoman.training.validation import Validation

# Called with the weights, their step, and how good they are.
KeepBest = Callable[[dict[str, Tensor], int, Validation], None]


@dataclass(frozen=True)
class Selection(Generic[M, B]):
    """Validates the weights, and keeps those that are the best so far by `by`."""

    model: M
    objective: Objective[M, B]
    state: RunState
    by: str
    keep_best: KeepBest
    reporter: Reporter

    def validate(self, budget: Budget, stop: StopRequest) -> None:
        """Validate the present weights, or their moving average if the run keeps one.

        Raises:
            BrokenOff: when a signal arrives before the validation has ended; nothing has changed then.
        """
        progress, average = self.state.progress, self.state.average
        self.model.eval()
        if average is None:
            with stop.breaking_off():
                validation = self.objective.validate(self.model)
            weights = weights_of(self.model)
        else:
            with average.swapped_in(self.model), stop.breaking_off():
                validation = self.objective.validate(self.model)
            weights = average.weights
        progress.validations = budget.validations_passed()
        progress.validated_steps += (progress.step,)
        self._consider(validation, weights, of_average=False)

    def try_average_of_last(self, checkpoints: Path, count: int, stop: StopRequest) -> None:
        """Validate the mean of the weights at the last `count` validations.

        Raises:
            BrokenOff: when a signal arrives before the validation has ended.
        """
        steps = self.state.progress.validated_steps[-count:]
        if count < 2 or len(steps) < 2:
            return
        paths = [checkpoint_path(checkpoints, step) for step in steps]
        average = average_states(load_checkpoint(path).tensors["model"] for path in paths)
        own = {name: tensor.clone() for name, tensor in weights_of(self.model).items()}
        set_weights(self.model, average, "the average of the last checkpoints")
        self.model.eval()
        with stop.breaking_off():
            validation = self.objective.validate(self.model)
        self._consider(validation, weights_of(self.model), of_average=True)
        set_weights(self.model, own, "the last weights")

    def _consider(self, validation: Validation, weights: dict[str, Tensor], *, of_average: bool) -> None:
        """Keep the weights if they are the best so far, and report the validation."""
        progress = self.state.progress
        best = validation.better_than(progress.best, self.by)
        if best:
            # Before the checkpoint that says so: if we die between them, the same is done again.
            self.keep_best(weights, progress.step, validation)
            progress.best, progress.best_step, progress.since_best = validation, progress.step, 0
        else:
            progress.since_best += 1
        self.reporter.validation(validation, best=best, of_average=of_average)
