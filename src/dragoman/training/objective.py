"""What is trained and how it is judged: the one thing that the loop asks for batches, losses and validations.

`translation_objective` is the first. Another one (language modelling, classification) is a file beside it, with its own
batches, loss and validation; it needs no change of the loop, the checkpoints, the schedule or the display. What a
validation needs from rooms above this one, such as translating, is given by `run`. A small one, whole, is in
tests/unit/training/test_objective.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from dragoman.data.batching import Cursor
from dragoman.training.validation import Validation


class TrainingBatch(Protocol):
    """What every batch can do, whatever is in it."""

    def to(self, device: torch.device) -> Self:
        """Return the same batch on `device`; from pinned memory to a GPU, without waiting for the copy."""

    def pin_memory(self) -> Self:
        """Return the same batch in memory that a GPU can copy from by itself."""


M = TypeVar("M", bound=nn.Module)
M_contra = TypeVar("M_contra", bound=nn.Module, contravariant=True)
B = TypeVar("B", bound=TrainingBatch)
B_co = TypeVar("B_co", bound=TrainingBatch, covariant=True)


@dataclass(frozen=True)
class BatchLoss:
    """The loss of one batch, summed over its tokens, in nats.

    loss   what is reported
    cost   what the model adds of its own (such as pondering): trained on, not reported
    """

    loss: Tensor
    cost: Tensor


class Batches(Protocol[B_co]):
    """The endless stream of training batches, which can be entered at any cursor."""

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[B_co, Cursor]]:
        """Yield each batch with the cursor after it. The same cursor gives the same batches."""

    def longest(self) -> B_co:
        """Return a batch that no other one exceeds in memory."""


class Losses(Protocol[M_contra, B]):
    """How a batch becomes a loss, and how it is split when memory does not suffice."""

    def loss(self, model: M_contra, batch: B) -> BatchLoss:
        """Return the loss of a batch on the model's device; called under autocast."""

    def tokens(self, batch: B) -> int:
        """Return the number of tokens that the loss is summed over, known without asking the device."""

    def size(self, batch: B) -> int:
        """Return the tokens in memory, padding included."""

    def split(self, batch: B, limit: float) -> Iterator[B]:
        """Yield the batch in pieces of at most `limit` in size, or of one example."""

    def describe(self, batch: B) -> str:
        """Return what a batch of one example is, for the message that it does not fit into memory."""


class Objective(Losses[M_contra, B], Protocol[M_contra, B]):
    """What the loop trains.

    metrics             what a validation measures beside the loss, by name in `metrics.METRICS`
    validation_tokens   tokens that a validation writes, for the forecast of the time left
    """

    @property
    def batches(self) -> Batches[B]:
        """Return the training batches."""

    @property
    def metrics(self) -> Sequence[str]:
        """Return the names of the metrics."""

    @property
    def validation_tokens(self) -> int:
        """Return the number of tokens."""

    def validate(self, model: M_contra) -> Validation:
        """Measure a model, which is in evaluation mode."""
