"""The common structure of all models: embeddings, an encoder, a decoder, and the output projection."""

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
EncodedMemory = TypeVar("EncodedMemory", bound=Memory)


class EncoderDecoder(Seq2Seq, Generic[Encoder, Decoder, EncodedMemory]):
    """Base class of models with two embeddings, an encoder, a decoder, and an output projection.

    This class selects the memory layout of each side of a batch; everything from the encoder to the loss uses it.

    Args:
        source_embedding: embedding of source tokens.
        target_embedding: embedding of target tokens.
        encoder: the encoder.
        decoder: the decoder.
        output: projection onto the target vocabulary, without bias.
        random_positions: in training, a batch starts at a random position below this. Source and target start at the
            same position, so that equal indices on both sides have equal positions. 0: always start at position 0.
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
    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, offset: int = 0) -> EncodedMemory:
        """Encode the source.

        Args:
            source: token ids.
            layout: layout of the source; the returned memory may be padded instead.
            offset: position of the first token.
        """

    @abstractmethod
    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, offset: int = 0) -> Decoded:
        """Decode all positions of the target.

        Args:
            target: token ids, beginning with BOS.
            layout: layout of the target and of the result.
            memory: the encoded source.
            offset: position of the first token.
        """

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> EncodedMemory:
        """See `Seq2Seq.encode`."""
        return self.encode_rows(source, layout_of(mask))

    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """See `Seq2Seq.decode_states`."""
        layout = Padded(torch.ones_like(target, dtype=torch.bool)) if target_mask is None else layout_of(target_mask)
        return self.decode_rows(target, layout, memory).states

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> Decoded:
        """See `Seq2Seq.forward`; in training, the batch starts at a random position (`random_positions`)."""
        offset = random_start(self.random_positions) if self.training else 0
        memory = self.encode_rows(source, layout_of(source_mask), offset)
        return self.decode_rows(target, layout_of(target_mask), memory, offset)

    def embed_token(self, token: Int[Tensor, " B"], position: int = 0) -> Float[Tensor, "B 1 D"]:
        """Embed one target token of each sentence, all at index `position`."""
        # [B] -> [B, 1] -> [B, 1, D]
        return self.target_embedding(token.unsqueeze(1), offset=position)
