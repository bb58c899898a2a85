"""Gradients of batches that may be too large for the memory: such batches are split."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from dragoman.device import Precision
from dragoman.errors import SettingsError
from dragoman.training.gradients import accumulate_gradients
from dragoman.training.objective import B, Losses, M


@dataclass
class GradientAccumulator(Generic[M, B]):
    """Computes the gradient of several batches; splits batches that do not fit into memory.

    Attributes:
        model: the model, whose parameters receive the gradients.
        losses: compute the loss of a batch, and split batches.
        precision: precision of the forward pass.
        device: device of the model.
        on_message: called with a message when a batch is split for the first time.
        limit: largest size of a part of a batch in padded tokens. It is halved whenever memory is exhausted.
    """

    model: M
    losses: Losses[M, B]
    precision: Precision
    device: torch.device
    on_message: Callable[[str], None]
    limit: float = math.inf

    def __call__(self, batches: Sequence[B]) -> tuple[Tensor, int]:
        """Add the gradient of the mean loss per token to the parameters.

        Returns:
            The summed loss in nats and the number of tokens.

        Raises:
            SettingsError: if a single example does not fit into memory.
        """
        while True:
            try:
                parts = [part for batch in batches for part in self.losses.split(batch, self.limit)]
                return accumulate_gradients(self.model, parts, self.losses, self.precision, self.device)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # After the except block: inside it, the error would keep the tensors of the failed attempt alive.
            self.model.zero_grad()
            self._halve_limit(parts)

    def _halve_limit(self, parts: Sequence[B]) -> None:
        largest = max(parts, key=self.losses.size)
        size, first = self.losses.size(largest), math.isinf(self.limit)
        self.limit = size / 2
        if len(list(self.losses.split(largest, self.limit))) == 1:
            raise SettingsError(
                f"{self.losses.describe(largest)} does not fit into memory: "
                "lower data.max_length, use a smaller preset, or free memory"
            )
        if first:
            self.on_message(
                f"a batch of {size:,} tokens does not fit into memory: it and other batches of this size are split; "
                "the result is the same, but a smaller batching.batch_tokens is faster"
            )


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error of torch or Python reports that memory, of a GPU or a CPU, is exhausted."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
