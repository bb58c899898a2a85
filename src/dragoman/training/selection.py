"""Validation of the weights, and selection of the best ones."""

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

# Called with the best weights so far, their step, and their validation.
SaveBest = Callable[[dict[str, Tensor], int, Validation], None]


@dataclass(frozen=True)
class ModelSelection(Generic[M, B]):
    """Validates the weights, and saves them when they are the best so far.

    Attributes:
        model: the model that is trained.
        objective: validates the model.
        state: the run.
        metric: name of the metric by which validations are compared.
        save_best: called with the weights after each validation that is the best so far.
        reporter: reports every validation.
    """

    model: M
    objective: Objective[M, B]
    state: RunState
    metric: str
    save_best: SaveBest
    reporter: Reporter

    def validate(self, budget: Budget, stop: StopRequest) -> None:
        """Validate the current weights, or their moving average if the run has one.

        Raises:
            WorkInterrupted: if a signal arrives before the validation has ended; nothing has changed in this case.
        """
        progress, average = self.state.progress, self.state.average
        self.model.eval()
        if average is None:
            with stop.interruptible():
                validation = self.objective.validate(self.model)
            weights = weights_of(self.model)
        else:
            with average.swapped_in(self.model), stop.interruptible():
                validation = self.objective.validate(self.model)
            weights = average.weights
        progress.validations = budget.validations_passed()
        progress.validated_steps += (progress.step,)
        self._save_if_best(validation, weights, of_average=False)

    def validate_average_of_last(self, checkpoints: Path, count: int, stop: StopRequest) -> None:
        """Validate the mean of the weights at the last `count` validations.

        Raises:
            WorkInterrupted: if a signal arrives before the validation has ended.
        """
        steps = self.state.progress.validated_steps[-count:]
        if count < 2 or len(steps) < 2:
            return
        paths = [checkpoint_path(checkpoints, step) for step in steps]
        average = average_states(load_checkpoint(path).tensors["model"] for path in paths)
        own = {name: tensor.clone() for name, tensor in weights_of(self.model).items()}
        set_weights(self.model, average, "the average of the last checkpoints")
        self.model.eval()
        with stop.interruptible():
            validation = self.objective.validate(self.model)
        self._save_if_best(validation, weights_of(self.model), of_average=True)
        set_weights(self.model, own, "the last weights")

    def _save_if_best(self, validation: Validation, weights: dict[str, Tensor], *, of_average: bool) -> None:
        """Save the weights if they are the best so far, and report the validation."""
        progress = self.state.progress
        best = validation.better_than(progress.best, self.metric)
        if best:
            # Before the checkpoint that records it: if the process is killed between them, both are written again.
            self.save_best(weights, progress.step, validation)
            progress.best, progress.best_step, progress.since_best = validation, progress.step, 0
        else:
            progress.since_best += 1
        self.reporter.report_validation(validation, best=best, of_average=of_average)
