"""The state of a run: everything that changes in a run, into a checkpoint and out of it again, bit for bit."""

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
    """How far a run has come: everything that changes but for tensors."""

    step: int = 0
    cursor: Cursor = Cursor()  # noqa: RUF009 - frozen
    seconds: float = 0.0
    validations: int = 0
    since_best: int = 0
    best: Validation | None = None
    best_step: int = 0
    # The weights at these steps are kept, to be averaged at the end.
    validated_steps: tuple[int, ...] = ()
    # Since the last line of the log.
    loss_sum: float = 0.0
    tokens: int = 0
    # Updates that were not applied, as loss or gradient were not finite; and returns to a checkpoint for that.
    skipped: int = 0
    bad_in_a_row: int = 0
    rollbacks: int = 0
    # The average of the last weights has been tried: nothing is left to do.
    finished: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "cursor": asdict(self.cursor), "best": self.best and self.best.to_json()}

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> "Progress":
        """Read what `to_json` wrote."""
        return cls(
            **{
                **state,
                "cursor": Cursor(**state["cursor"]),
                "best": state["best"] and Validation.from_json(state["best"]),
                "validated_steps": tuple(state["validated_steps"]),
            }
        )


class RunState:
    """Everything that changes while a model trains. A checkpoint holds all of it.

    model        its weights
    optimizers   their state
    average      the moving average of the weights, if the run keeps one
    progress     all the rest, together with torch's random state and the clock
    """

    def __init__(self, model: nn.Module, optimizers: Optimizers, average: MovingAverage | None) -> None:
        self.model = model
        self.optimizers = optimizers
        self.average = average
        self.progress = Progress()
        self._clock = time.monotonic()

    def seconds(self) -> float:
        """Return the time spent on training, by earlier processes too."""
        return self.progress.seconds + time.monotonic() - self._clock

    def set_seconds(self, seconds: float) -> None:
        """Let the clock go on from `seconds`."""
        self.progress.seconds, self._clock = seconds, time.monotonic()

    def save(self, checkpoints: Path, keep: Collection[int] = ()) -> None:
        """Write a checkpoint; keep also the one before, and those of the steps `keep`."""
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
        """Go back to a checkpoint.

        Raises:
            UserError: when it is of another model or of other optimizers.
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
class Outcome:
    """What training came to: updates made, the best validation and its step, seconds spent.

    skipped     updates that were not applied, as loss or gradient were not finite
    rollbacks   returns to a checkpoint, each of which halved the learning rate
    """

    steps: int
    best: Validation
    best_step: int
    seconds: float
    stopped_early: bool
    skipped: int = 0
    rollbacks: int = 0
