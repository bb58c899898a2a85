"""The interface that every sequence-to-sequence model implements.

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

# A TypeVar, because the runtime checks of annotations in the tests do not support typing.Self.
M = TypeVar("M", bound="Memory")


@dataclass(frozen=True)
class Memory:
    """The encoded source.

    Attributes:
        rows: [*BS, D], states of the source, in `layout`.
        layout: layout of the source.
    """

    rows: Float[Tensor, "*BS D"]
    layout: Layout

    # Cached, because every layer uses them, and a search without reordering uses them at every position.
    @cached_property
    def states(self) -> Float[Tensor, "B S D"]:
        """The states as a padded batch."""
        return self.layout.batch(self.rows)

    @property
    def mask(self) -> Bool[Tensor, "B S"]:
        """True for tokens, False for padding."""
        return self.layout.mask

    def in_layout(self: M, layout: Layout) -> M:
        """Return the same memory in another layout of the same batch."""
        return replace(self, rows=layout.rows(self.states), layout=layout)

    def matching(self: M, target: Layout) -> M:
        """Return the same memory in the kind of layout that the target has: packed or padded."""
        return self if self.layout.packed == target.packed else self.in_layout(type(target)(self.mask))

    def reorder(self: M, rows: Int[Tensor, " N"]) -> M:
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(self, rows=self.states[rows], layout=Padded(self.mask[rows]))


@dataclass(frozen=True)
class SourcePrediction:
    """What a decoder-only model predicts of the source.

    Attributes:
        rows: [N, D], states before the projection onto the vocabulary.
        tokens: [N], the token after each state.
        counted: [N], True for the states that predict a token of the source.
    """

    rows: Float[Tensor, "N D"]
    tokens: Int[Tensor, " N"]
    counted: Bool[Tensor, " N"]


@dataclass(frozen=True)
class Decoded:
    """Output of a decoder for all target positions, before the projection onto the vocabulary.

    Attributes:
        rows: [*BT, D], states of the target, in `layout`.
        layout: layout of the target.
        cost: additional cost of the model in nats, a sum over tokens that is added to the summed loss; 0 for all models
            but the Universal Transformer with adaptive halting.
        source: prediction of the source, from its second token to its EOS; None for models with an encoder.
    """

    rows: Float[Tensor, "*BT D"]
    layout: Layout
    cost: Float[Tensor, ""]
    source: SourcePrediction | None = None

    @property
    def states(self) -> Float[Tensor, "B T D"]:
        """The states as a padded batch."""
        return self.layout.batch(self.rows)


@dataclass(frozen=True)
class AttentionModules:
    """The modules that compute attention weights, in the order of the layers.

    Each module is an `AttentionCore`, or the `AttentionWeights` of a recurrent model. A module that is applied several
    times, as in the Universal Transformer, represents as many layers. A tuple is empty if the model has no attention of
    this kind.
    """

    encoder_self: tuple[nn.Module, ...] = ()
    decoder_self: tuple[nn.Module, ...] = ()
    encoder_decoder: tuple[nn.Module, ...] = ()


class Seq2Seq(nn.Module, ABC):
    """Base class of sequence-to-sequence models.

    Training calls `forward` (all positions at once); search calls `start` and then `step` for each position. Both
    compute the same logits.

    Attributes:
        output: projection onto the target vocabulary, without bias. The loss uses its weight directly, to project a few
            rows at a time.

    Example:
        >>> import torch
        >>> from dragoman.models.registry import build_model, preset
        >>> model = build_model(preset("tiny", 100, 100, joint=True)).eval()
        >>> source, target = torch.randint(100, (2, 7)), torch.randint(100, (2, 5))
        >>> memory = model.encode(source, torch.ones_like(source, dtype=torch.bool))
        >>> model.decode(target, memory).shape
        torch.Size([2, 5, 100])
        >>> logits, state = model.step(target[:, 0], model.start(memory))
        >>> logits.shape
        torch.Size([2, 100])
    """

    output: nn.Linear

    @abstractmethod
    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Encode the source.

        Args:
            source: token ids.
            mask: True for tokens, False for padding.
        """

    @abstractmethod
    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """Return the output of the decoder before the projection onto the vocabulary.

        The output at position t depends on target tokens 0..t only.

        Args:
            target: token ids, beginning with BOS.
            memory: the encoded source.
            target_mask: True for tokens, False for padding, which is at the end; None if there is no padding.
        """

    def project(self, states: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Return logits over the target vocabulary."""
        # [..., D] -> [..., V]
        return self.output(states)

    def decode(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T V"]:
        """Return the logits of every next token, computed for all positions at once.

        See `decode_states` for the arguments.
        """
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
        """Encode the source and decode the target, for training.

        The states are those of `decode_states`, in the layout of the target and with the cost of the model.

        Args:
            source: token ids.
            source_mask: True for tokens, False for padding.
            target: token ids, beginning with BOS.
            target_mask: True for tokens, False for padding, which is at the end.
        """

    def token_statistics(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> dict[str, Float[Tensor, " _"]]:
        """Return values that the model reports for each token, such as its number of steps; by default, none.

        The arguments are those of `forward`.

        Returns:
            For each statistic, its name and one value for each real token.
        """
        return {}

    def attentions(self) -> AttentionModules:
        """Return the modules that compute the attention weights; by default, none."""
        return AttentionModules()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU; by default, none."""
        return ()

    @abstractmethod
    def start(self, memory: Memory) -> DecoderState:
        """Return the decoder's state before the first target token."""

    @abstractmethod
    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], DecoderState]:
        """Decode one position.

        Args:
            token: the target token at this position; the first is BOS.
            state: the state before this position.

        Returns:
            The logits of the next token, equal to those of `decode`, and the state after this position.
        """
