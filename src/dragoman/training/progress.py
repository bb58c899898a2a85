"""The state of a run, which is saved to checkpoints and restored from them bit for bit."""

import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dragoman.data.batching import Cursor
from dragoman.models.storage import set_weights, weights_of
from dragoman.training.averaging import MovingAverage
from dragoman.training.checkpoint import Checkpoint, pack_optimizer, prune, save_checkpoint, unpack_optimizer
from dragoman.training.optimizers.parts import Optimizers
from dragoman.training.validation import Validation


@dataclass
class Progress:
    """Progress of a run: the part of its state that is not tensors.

    Attributes:
        step: updates made.
        cursor: cursor of the next batch in the stream of batches.
        seconds: time spent on training, up to the last checkpoint.
        validations: validations made.
        since_best: validations since the best one.
        best: the best validation.
        best_step: step of the best validation.
        validated_steps: steps of all validations; the weights of the last ones may be averaged at the end.
        loss_sum: summed loss since the last "step" event of the log, in nats.
        tokens: target tokens since the last "step" event of the log.
        skipped: updates that were not applied because the loss or the gradient was not finite.
        bad_in_a_row: skipped updates since the last applied one.
        rollbacks: number of times that the run was set back to a checkpoint.
        finished: True if nothing is left to do: the average of the last weights has been validated.
    """

    step: int = 0
    cursor: Cursor = Cursor()  # noqa: RUF009 - frozen
    seconds: float = 0.0
    validations: int = 0
    since_best: int = 0
    best: Validation | None = None
    best_step: int = 0
    validated_steps: tuple[int, ...] = ()
    loss_sum: float = 0.0
    tokens: int = 0
    skipped: int = 0
    bad_in_a_row: int = 0
    rollbacks: int = 0
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the progress as JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "cursor": asdict(self.cursor), "best": self.best and self.best.to_json()}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "Progress":
        """Return the progress from the values that `to_json` returned."""
        return cls(
            **{
                **state,
                "cursor": Cursor(**state["cursor"]),
                "best": state["best"] and Validation.from_json(state["best"]),
                "validated_steps": tuple(state["validated_steps"]),
            }
        )


class RunState:
    """State of a run: weights, optimizers, moving average, progress, clock, and torch's random number generators.

    A checkpoint contains all of it.

    Args:
        model: the model that is trained.
        optimizers: its optimizers.
        average: the moving average of the weights, if the run has one.
    """

    def __init__(self, model: nn.Module, optimizers: Optimizers, average: MovingAverage | None) -> None:
        self.model = model
        self.optimizers = optimizers
        self.average = average
        self.progress = Progress()
        self._clock = time.monotonic()

    def seconds(self) -> float:
        """Return the time spent on training, including earlier processes of this run."""
        return self.progress.seconds + time.monotonic() - self._clock

    def set_seconds(self, seconds: float) -> None:
        """Set the time spent on training, which continues to increase from this value."""
        self.progress.seconds, self._clock = seconds, time.monotonic()

    def save(self, checkpoints: Path, keep: Collection[int] = ()) -> None:
        """Write a checkpoint, and remove old ones.

        Args:
            checkpoints: directory of the checkpoints.
            keep: steps whose checkpoints are kept in addition to the two newest.
        """
        self.set_seconds(self.seconds())
        packed = {name: pack_optimizer(optimizer) for name, optimizer in self.optimizers.named().items()}
        tensors: dict[str, Mapping[str, Tensor]] = {
            "model": weights_of(self.model),
            **{name: tensors for name, (tensors, _) in packed.items()},
            "random": self._random_state(),
        }
        if self.average is not None:
            tensors["average"] = self.average.weights
        state = {"position": self.progress.to_json(), **{name: values for name, (_, values) in packed.items()}}
        save_checkpoint(checkpoints, self.progress.step, tensors, state)
        prune(checkpoints, keep={*keep, self.progress.step}, keep_last=2)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Restore the state from a checkpoint.

        Raises:
            UserError: if the checkpoint belongs to another model or to other optimizers.
        """
        device = self._device()
        tensors, state = checkpoint.tensors, checkpoint.state
        set_weights(self.model, tensors["model"], "checkpoint")
        for name, optimizer in self.optimizers.named().items():
            unpack_optimizer(optimizer, tensors[name], state[name])
        if self.average is not None:
            self.average.weights = {name: tensor.to(device) for name, tensor in tensors["average"].items()}
        torch.set_rng_state(tensors["random"]["cpu"])
        if device.type == "cuda" and "cuda" in tensors["random"]:
            torch.cuda.set_rng_state(tensors["random"]["cuda"], device)
        self.progress = Progress.from_json(state["position"])
        self.set_seconds(self.progress.seconds)

    def _random_state(self) -> dict[str, Tensor]:
        device, state = self._device(), {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            state["cuda"] = torch.cuda.get_rng_state(device)
        return state

    def _device(self) -> torch.device:
        return next(self.model.parameters()).device


@dataclass(frozen=True)
class TrainingResult:
    """Result of a training run.

    Attributes:
        steps: updates made.
        best: the best validation.
        best_step: step of the best validation.
        seconds: time spent on training.
        stopped_early: True if the patience was exhausted before the budget was spent.
        skipped: updates that were not applied because the loss or the gradient was not finite.
        rollbacks: number of times that the run was set back to a checkpoint; each time the learning rate was halved.
    """

    steps: int
    best: Validation
    best_step: int
    seconds: float
    stopped_early: bool
    skipped: int = 0
    rollbacks: int = 0
