"""Batches that do not fit into memory are split, and tried again."""

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
class FittingGradients(Generic[M, B]):
    """`accumulate_gradients` in as many pieces as memory asks for.

    limit   padded tokens in a piece; falls when memory does not suffice
    tell    called with a sentence when it first falls
    """

    model: M
    losses: Losses[M, B]
    precision: Precision
    device: torch.device
    tell: Callable[[str], None]
    limit: float = math.inf

    def __call__(self, batches: Sequence[B]) -> tuple[Tensor, int]:
        """Return the summed loss and the number of tokens; the gradients of the mean are in the parameters.

        Raises:
            SettingsError: when a single example is too much.
        """
        while True:
            try:
                pieces = [piece for batch in batches for piece in self.losses.split(batch, self.limit)]
                return accumulate_gradients(self.model, pieces, self.losses, self.precision, self.device)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the except block, where the error would keep the tensors of the failed attempt alive.
            self.model.zero_grad()
            self._halve(pieces)

    def _halve(self, pieces: Sequence[B]) -> None:
        largest = max(pieces, key=self.losses.size)
        size, first = self.losses.size(largest), math.isinf(self.limit)
        self.limit = size / 2
        if len(list(self.losses.split(largest, self.limit))) == 1:
            raise SettingsError(
                f"{self.losses.describe(largest)} does not fit "
                "into memory: lower data.max_length, take a smaller preset, or free memory"
            )
        if first:
            self.tell(
                f"a batch of {size:,} tokens does not fit into memory: it is split, and so are others as "
                "large; the result is the same, but a smaller batching.batch_tokens is faster"
            )


def is_out_of_memory(error: Exception) -> bool:
    """Return whether this is torch, on a GPU or on the CPU, or Python saying that memory does not suffice."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)
