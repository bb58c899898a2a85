"""Interface of a training objective: batches, their loss, and validation.

`translation_objective` implements it for translation. Another objective (language modelling, classification) is another
module with its own batches, loss and validation; it needs no change of the loop, the checkpoints, the schedule or the
display. Functions of packages that `training` must not import, such as translating a validation set, are passed in by
`run`. A small complete example is in tests/unit/training/test_objective.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import torch
from torch import Tensor, nn

from dragoman.data.batching import Cursor
from dragoman.training.validation import Validation


class TrainingBatch(Protocol):
    """Interface of a batch."""

    def to(self, device: torch.device) -> Self:
        """Return the batch on `device`; a copy from pinned memory to a GPU is asynchronous."""

    def pin_memory(self) -> Self:
        """Return the batch in pinned memory, from which a GPU can copy asynchronously."""


M = TypeVar("M", bound=nn.Module)
M_contra = TypeVar("M_contra", bound=nn.Module, contravariant=True)
B = TypeVar("B", bound=TrainingBatch)
B_co = TypeVar("B_co", bound=TrainingBatch, covariant=True)


@dataclass(frozen=True)
class BatchLoss:
    """Loss of one batch, summed over its tokens, in nats.

    Attributes:
        loss: the loss, which is reported and minimised.
        cost: additional cost of the model (such as pondering), which is minimised but not reported.
    """

    loss: Tensor
    cost: Tensor


class Batches(Protocol[B_co]):
    """Endless stream of training batches, which can start at any cursor."""

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[B_co, Cursor]]:
        """Yield each batch with the cursor after it; the same cursor always gives the same batches."""

    def longest(self) -> B_co:
        """Return the batch that needs the most memory."""


class Losses(Protocol[M_contra, B]):
    """Computes the loss of batches, and splits batches that do not fit into memory."""

    def loss(self, model: M_contra, batch: B) -> BatchLoss:
        """Return the loss of a batch, which is on the model's device; called under autocast."""

    def tokens(self, batch: B) -> int:
        """Return the number of tokens over which the loss is summed, without synchronising with the device."""

    def size(self, batch: B) -> int:
        """Return the number of tokens including padding."""

    def split(self, batch: B, limit: float) -> Iterator[B]:
        """Yield parts of the batch, each of at most `limit` tokens including padding or of a single example."""

    def describe(self, batch: B) -> str:
        """Describe a batch of a single example, for the message that it does not fit into memory."""


class Objective(Losses[M_contra, B], Protocol[M_contra, B]):
    """Interface of a training objective: the losses above, the training batches, and validation."""

    @property
    def batches(self) -> Batches[B]:
        """Return the training batches."""

    @property
    def metrics(self) -> Sequence[str]:
        """Return the names (in `metrics.METRICS`) of the metrics that a validation measures in addition to the loss."""

    @property
    def validation_tokens(self) -> int:
        """Return the number of tokens that a validation generates, for the estimate of the remaining time."""

    def validate(self, model: M_contra) -> Validation:
        """Validate a model, which is in evaluation mode."""
