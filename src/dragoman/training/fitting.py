"""Batches that do not fit into memory are split, and tried again."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from dragoman.data.batching import Batch
from dragoman.device import Precision
from dragoman.errors import UserError
from dragoman.models.seq2seq import Seq2Seq
from dragoman.training.gradients import accumulate_gradients


@dataclass
class FittingGradients:
    """`accumulate_gradients` in as many pieces as memory asks for.

    limit   padded tokens in a piece; falls when memory does not suffice
    tell    called with a sentence when it first falls
    """

    model: Seq2Seq
    smoothing: float
    precision: Precision
    device: torch.device
    tell: Callable[[str], None]
    limit: float = math.inf

    def __call__(self, batches: Sequence[Batch]) -> tuple[Tensor, int]:
        """The summed loss and the number of target tokens; the gradients of the mean are in the parameters.

        Raises:
            UserError: when a single pair is too much.
        """
        while True:
            try:
                pieces = [piece for batch in batches for piece in split(batch, self.limit)]
                return accumulate_gradients(self.model, pieces, self.smoothing, self.precision, self.device)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
            # Outside the except block, where the error would keep the tensors of the failed attempt alive.
            self.model.zero_grad()
            self._halve(pieces)

    def _halve(self, pieces: Sequence[Batch]) -> None:
        largest = max(pieces, key=size)
        if len(largest.source) == 1:
            raise UserError(
                f"a single pair of {largest.source.shape[1]} and {largest.target_in.shape[1]} subwords does not fit "
                "into memory: lower data.max_length, take a smaller preset, or free memory"
            )
        first = math.isinf(self.limit)
        self.limit = size(largest) / 2
        if first:
            self.tell(
                f"a batch of {size(largest):,} tokens does not fit into memory: it is split, and so are others as "
                "large; the result is the same, but a smaller batching.batch_tokens is faster"
            )


def is_out_of_memory(error: Exception) -> bool:
    """Whether this is torch, on a GPU or on the CPU, or Python saying that memory does not suffice."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def size(batch: Batch) -> int:
    """Padded tokens: rows times the longer side."""
    return len(batch.source) * max(batch.source.shape[1], batch.target_in.shape[1])


def split(batch: Batch, limit: float) -> Iterator[Batch]:
    """The batch in pieces of at most `limit` padded tokens (or of one row)."""
    rows = max(1, int(min(len(batch.source), limit * len(batch.source) / size(batch))))
    if rows == len(batch.source):
        yield batch
        return
    for start in range(0, len(batch.source), rows):
        part = {
            field.name: getattr(batch, field.name)[start : start + rows]
            for field in fields(batch)
            if field.name != "target_tokens"
        }
        yield replace(batch, **part, target_tokens=int(part["target_mask"].sum()))
