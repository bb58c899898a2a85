"""Interface of a decoder's state between two steps of search."""

from abc import ABC, abstractmethod

from jaxtyping import Int
from torch import Tensor


class DecoderState(ABC):
    """Decoder state of B unfinished outputs. Immutable: `Seq2Seq.step` and `reorder` return a new state."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, " N"]) -> "DecoderState":
        """Return the state of the batch rows `rows`, in this order.

        Rows may repeat (a hypothesis with several extensions) or be left out (a finished output).
        """
