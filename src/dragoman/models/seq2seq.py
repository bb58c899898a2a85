"""The contract that every sequence-to-sequence model keeps.

Letters: B batch, S source length, T target length, D d_model, V target vocabulary, N real tokens.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.models.state import DecoderState
from dragoman.packing import Layout, Padded

# The memory of an architecture: typing.Self, which the tests' checks of annotations do not take here.
M = TypeVar("M", bound="Memory")


@dataclass(frozen=True)
class Memory:
    """The encoded source.

    rows    [*BS, D]  its states, in
    layout            the layout of the source
    """

    rows: Float[Tensor, "*BS D"]
    layout: Layout

    # Kept: every layer reads them, and a search that does not reorder reads them at every position.
    @cached_property
    def states(self) -> Float[Tensor, "B S D"]:
        """The states as a padded batch."""
        return self.layout.batch(self.rows)

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """True = a real token, False = padding."""
        return self.layout.mask

    def in_layout(self: M, layout: Layout) -> M:
        """The same memory in another layout of the same batch."""
        return replace(self, rows=layout.rows(self.states), layout=layout)

    def beside(self: M, target: Layout) -> M:
        """The same memory as rows where the target's are, and as a padded batch beside a padded one."""
        return self if self.layout.packed == target.packed else self.in_layout(type(target)(self.mask))

    def reorder(self: M, rows: Int[Tensor, " N"]) -> M:
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(self, rows=self.states[rows], layout=Padded(self.mask[rows]))


@dataclass(frozen=True)
class Decoded:
    """What a decoder gives of all target positions, before the projection onto the vocabulary.

    rows    [*BT, D]  its states, in
    layout            the layout of the target
    cost    of the model's own, in nats, summed over target tokens like the loss, to which it is added; 0 for most
    """

    rows: Float[Tensor, "*BT D"]
    layout: Layout
    cost: Float[Tensor, ""]

    @property
    def states(self) -> Float[Tensor, "B T D"]:
        """The states as a padded batch."""
        return self.layout.batch(self.rows)


@dataclass(frozen=True)
class AttentionModules:
    """Where the weights of a model's attention come about, in the order of the layers.

    Each is an `AttentionCore`, or the `AttentionWeights` of a recurrent model. One that is applied several times, such
    as the Universal Transformer's, stands for as many layers. An empty tuple: the model has no attention of this kind.
    """

    encoder_self: tuple[nn.Module, ...] = ()
    decoder_self: tuple[nn.Module, ...] = ()
    encoder_decoder: tuple[nn.Module, ...] = ()


class Seq2Seq(nn.Module, ABC):
    """A model that reads a source and writes a target.

    Training calls `decode` (all positions at once); search calls `start` and `step` (one position).
    Both give the same logits. Every model ends in `output`, a projection onto the target vocabulary
    without bias; the loss reads its weight, to project a few rows at a time.
    """

    output: nn.Linear

    @abstractmethod
    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Read the source; `mask` is True where a token is real."""

    @abstractmethod
    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's output before the projection onto the vocabulary.

        Position t sees target tokens 0..t only. `target_mask` is True where a target token is real
        (padding is at the end); None means that all are.
        """

    def project(self, states: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Logits over the target vocabulary."""
        # [..., D] -> [..., V]
        return self.output(states)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Logits of every next token, all positions at once under the causal mask."""
        # [B, T, D] -> [B, T, V]
        return self.project(self.decode_states(target, memory, target_mask))

    @abstractmethod
    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> Decoded:
        """What training needs: the rows of which `decode_states` are the batch, their layout, and the model's cost."""

    def token_statistics(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> dict[str, Float[Tensor, " _"]]:
        """Figures of each token that the model has to report, by name; none by default."""
        return {}

    def attentions(self) -> AttentionModules:
        """Where to look when one wants to see the attention; nowhere by default."""
        return AttentionModules()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU; none by default."""
        return ()

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """The state before the first target token."""

    @abstractmethod
    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """Logits of the token that follows `token`, and the state after it."""
