"""What a decoder remembers between two steps of search."""

from abc import ABC, abstractmethod

from jaxtyping import Int
from torch import Tensor


class DecoderState(ABC):
    """The state of B unfinished outputs. Immutable: `step` and `reorder` return a new one."""

    @abstractmethod
    def reorder(self, rows: Int[Tensor, " N"]) -> "DecoderState":
        """Keep the batch rows `rows` in that order.

        Rows may repeat (a beam that branches) or be left out (a finished output).
        """
