"""The whole state of a training run, into a checkpoint and out of it again, bit for bit."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dragoman.models.seq2seq import Seq2Seq
from dragoman.models.storage import set_weights, weights_of
from dragoman.training.averaging import MovingAverage
from dragoman.training.checkpoint import Checkpoint, pack_optimizer, prune, save_checkpoint, unpack_optimizer
from dragoman.training.optimizers import Optimizers
from dragoman.training.progress import Position


@dataclass(frozen=True)
class TrainingState:
    """What changes while a model trains, but for the position, and where its checkpoints are kept."""

    checkpoints: Path
    model: Seq2Seq
    optimizers: Optimizers
    average: MovingAverage | None

    def save(self, position: Position, keep: Collection[int]) -> None:
        """Write a checkpoint; keep also the one before, and those of the steps `keep`."""
        device = next(self.model.parameters()).device
        packed = {name: pack_optimizer(optimizer) for name, optimizer in self.optimizers.named().items()}
        tensors: dict[str, dict[str, Tensor]] = {
            "model": weights_of(self.model),
            **{name: tensors for name, (tensors, _) in packed.items()},
            "random": {"cpu": torch.get_rng_state()},
        }
        if device.type == "cuda":
            tensors["random"]["cuda"] = torch.cuda.get_rng_state(device)
        if self.average is not None:
            tensors["average"] = self.average.weights
        state = {"position": position.to_json(), **{name: values for name, (_, values) in packed.items()}}
        save_checkpoint(self.checkpoints, position.step, tensors, state)
        prune(self.checkpoints, keep={*keep, position.step}, keep_last=2)

    def restore(self, checkpoint: Checkpoint) -> Position:
        """Go back to a checkpoint; returns the position in it."""
        device = next(self.model.parameters()).device
        tensors, state = checkpoint.tensors, checkpoint.state
        set_weights(self.model, tensors["model"], "checkpoint")
        for name, optimizer in self.optimizers.named().items():
            unpack_optimizer(optimizer, tensors[name], state[name])
        if self.average is not None:
            self.average.weights = {name: tensor.to(device) for name, tensor in tensors["average"].items()}
        torch.set_rng_state(tensors["random"]["cpu"])
        if device.type == "cuda" and "cuda" in tensors["random"]:
            torch.cuda.set_rng_state(tensors["random"]["cuda"], device)
        return Position.from_json(state["position"])
