"""What all models here are made of, and how a batch passes through them."""

from abc import abstractmethod
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.layers.positions import random_start
from dragoman.models.embedding import Embedding
from dragoman.models.seq2seq import Decoded, Memory, Seq2Seq
from dragoman.packing import Layout, Padded, layout_of

Encoder = TypeVar("Encoder", bound=nn.Module)
Decoder = TypeVar("Decoder", bound=nn.Module)
Read = TypeVar("Read", bound=Memory)


class EncoderDecoder(Seq2Seq, Generic[Encoder, Decoder, Read]):
    """Two embeddings, an encoder, a decoder, and the output projection.

    The layout of each side of a batch is decided here, once; from the encoder to the loss, all take it as it is.

    In training, both sides of a batch begin at one of `random_positions` positions, the same, so that what is at
    the same place on both sides stays recognisable by its position; 0: at the first.
    """

    def __init__(
        self,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: Encoder,
        decoder: Decoder,
        output: nn.Linear,
        *,
        random_positions: int = 0,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output
        self.random_positions = random_positions

    @abstractmethod
    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, first: int = 0) -> Read:
        """Read the source, whose first token is at position `first`, in this layout."""

    @abstractmethod
    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, first: int = 0) -> Decoded:
        """Decode all positions of the target, whose first token is at position `first`, in this layout."""

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Read:
        """Read the source; `mask` is True where a token is real."""
        return self.encode_rows(source, layout_of(mask))

    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's output before the projection, all positions at once."""
        layout = Padded(torch.ones_like(target, dtype=torch.bool)) if target_mask is None else layout_of(target_mask)
        return self.decode_rows(target, layout, memory).states

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> Decoded:
        """See `Seq2Seq.forward`; from a random position on in training."""
        first = random_start(self.random_positions) if self.training else 0
        memory = self.encode_rows(source, layout_of(source_mask), first)
        return self.decode_rows(target, layout_of(target_mask), memory, first)

    def embed_token(self, token: Int[Tensor, " B"], position: int = 0) -> Float[Tensor, "B 1 D"]:
        """The embedding of one target token of each sentence, at the same position."""
        # [B] -> [B, 1] -> [B, 1, D]
        return self.target_embedding(token.unsqueeze(1), offset=position)
