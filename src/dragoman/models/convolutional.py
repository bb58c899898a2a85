"""The convolutional encoder-decoder, "ConvS2S" (Gehring et al., "Convolutional Sequence to Sequence Learning", 2017).

The file contains, in this order: the model, its encoder and decoder, the builder and the initialisation.

Differences from the paper:

- Weights are not normalised (Salimans and Kingma, 2016); training is stable without it.
- The gradients of the encoder are not divided by the number of attentions (section 3.4). The paper does so for gradient
  descent, whereas a step of Adam or Muon does not depend on the scale of a gradient.
- Embeddings and blocks have the same width, so the linear maps between them (section 3.2) are omitted, except the one
  in equation 1.
- The output projection has no bias.
- √½ also scales the sum of the state of a decoder block and its attention output, as in the authors' code. The text of
  the paper does not specify this.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.layers.dropout import Dropout
from dragoman.layers.multi_step_attention import MultiStepAttention
from dragoman.layers.positions import LearnedPositions
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.embedding import Embedding, vocabulary_matrices
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.initialisation import Rules, initialise, normal
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.packing import Layout, Padded


@dataclass(frozen=True)
class ConvolutionalMemory(Memory):
    """The encoded source: attention keys z in `rows`, and attention values.

    Attributes:
        value_rows: [*BS, D], √m (z + e), with e the embedded source of m tokens (equation 2, section 3.4); zeros for
            rows that are not tokens.
    """

    value_rows: Float[Tensor, "*BS D"]

    @cached_property
    def values(self) -> Float[Tensor, "B S D"]:
        """The attention values as a padded batch."""
        return self.layout.batch(self.value_rows)

    def in_layout(self, layout: Layout) -> "ConvolutionalMemory":
        """Return the same memory in another layout of the same batch."""
        return ConvolutionalMemory(layout.rows(self.states), layout, layout.rows(self.values))

    def reorder(self, rows: Int[Tensor, " N"]) -> "ConvolutionalMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return ConvolutionalMemory(self.states[rows], Padded(self.mask[rows]), self.values[rows])


@dataclass(frozen=True)
class ConvolutionalState(DecoderState):
    """State of the decoder between two steps.

    Attributes:
        pasts: for each block, its last k - 1 inputs [B, k-1, D]; zeros before the first token.
        memory: the encoded source.
        position: index of the next target token.
    """

    pasts: tuple[Float[Tensor, "B P D"], ...]
    memory: ConvolutionalMemory
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> "ConvolutionalState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return ConvolutionalState(tuple(past[rows] for past in self.pasts), self.memory.reorder(rows), self.position)


class Convolutional(EncoderDecoder["Encoder", "Decoder", ConvolutionalMemory]):
    """Embeddings, encoder, decoder with an attention in every block, output projection.

    The embeddings are e = w + p, the sum of a learned vector for the token and one for its position (section 3.1).
    """

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, offset: int = 0) -> ConvolutionalMemory:
        """See `EncoderDecoder.encode_rows`."""
        # [B, S] -> [B, S, D] -> [*BS, D]
        return self.encoder(self.source_embedding(source, offset), layout)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, offset: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`; the window of a position contains no later position."""
        assert isinstance(memory, ConvolutionalMemory)
        # [B, T] -> [B, T, D] -> [*BT, D]
        rows = self.decoder(self.target_embedding(target, offset), layout, memory)
        return Decoded(rows, layout, rows.new_zeros(()))

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        return AttentionModules(encoder_decoder=tuple(block.attention.core for block in self.decoder.blocks))

    def start(self, memory: Memory) -> ConvolutionalState:
        """See `Seq2Seq.start`."""
        assert isinstance(memory, ConvolutionalMemory)
        rows, _, d_model = memory.states.shape
        zeros = memory.states.new_zeros(rows, self.decoder.kernel_width - 1, d_model)
        return ConvolutionalState((zeros,) * len(self.decoder.blocks), memory, position=0)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], ConvolutionalState]:
        """See `Seq2Seq.step`."""
        assert isinstance(state, ConvolutionalState)
        # [B] -> [B, 1, D] -> [B, D]
        g = self.embed_token(token, state.position).squeeze(1)
        h, pasts = self.decoder.step(g, state)
        # [B, D] -> [B, V]
        return self.project(h), ConvolutionalState(pasts, state.memory, state.position + 1)


class Encoder(nn.Module):
    """A stack of gated convolutions with centred windows."""

    blocks: Sequence[GatedConvolution]

    def __init__(self, blocks: list[GatedConvolution], kernel_width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.kernel_width = kernel_width

    def forward(self, e: Float[Tensor, "B S D"], layout: Layout) -> ConvolutionalMemory:
        """Encode the embedded source `e`."""
        windows, rows = Windows(layout, self.kernel_width, causal=False), layout.rows(e)
        # The view makes autograd add up the gradients of the blocks before it adds that of the last line. This fixes
        # the order of the sum, and therefore the rounding.
        z = rows.view_as(rows)
        for block in self.blocks:
            z = block(z, windows)
        # The factor √m: with equal weights, averaging m vectors would reduce the scale by √m (section 3.4).
        # [B, S] -> [B, 1, 1] -> [B, S, 1] -> [*BS, 1]
        m = layout.rows(layout.mask.sum(dim=1).to(z.dtype)[:, None, None].expand(*e.shape[:2], 1))
        return ConvolutionalMemory(z, layout, (z + rows) * (m.sqrt() * layout.real.unsqueeze(-1)))


class DecoderBlock(nn.Module):
    """A causal gated convolution with attention: h ← √½·(h + c) (sections 3.3 and 3.4)."""

    def __init__(self, convolution: GatedConvolution, attention: MultiStepAttention) -> None:
        super().__init__()
        self.convolution = convolution
        self.attention = attention

    def forward(
        self,
        h: Float[Tensor, "*BT D"],
        g: Float[Tensor, "*BT D"],
        windows: Windows,
        key: Float[Tensor, "B S D"],
        value: Float[Tensor, "B S D"],
        mask: AttentionMask,
    ) -> Float[Tensor, "*BT D"]:
        """Transform all target positions at once.

        Args:
            h: input of the block.
            g: the embedded target.
            windows: windows of the convolution.
            key: attention keys of the source, in attention's grid.
            value: attention values of the source, in attention's grid.
            mask: the source positions that may be attended to.
        """
        h = self.convolution(h, windows)
        return (h + self.attention(h, g, key, value, mask)) * math.sqrt(0.5)

    def step(
        self,
        h: Float[Tensor, "B D"],
        g: Float[Tensor, "B D"],
        past: Float[Tensor, "B P D"],
        memory: ConvolutionalMemory,
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B P D"]]:
        """Transform one target position; the result equals that of `forward` at this position.

        Args:
            h: input of the block at this position.
            g: the embedded target token.
            past: the k - 1 inputs before this position.
            memory: the encoded source.

        Returns:
            The output, and the `past` of the next position.
        """
        h, past = self.convolution.step(h, past)
        # 2 x [B, D] -> [B, 1, D] -> [B, D]
        mask = AttentionMask.padding(memory.mask)
        c = self.attention(h.unsqueeze(1), g.unsqueeze(1), memory.states, memory.values, mask).squeeze(1)
        return (h + c) * math.sqrt(0.5), past


class Decoder(nn.Module):
    """A stack of decoder blocks, followed by dropout."""

    blocks: Sequence[DecoderBlock]

    def __init__(self, blocks: list[DecoderBlock], kernel_width: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.kernel_width = kernel_width
        self.dropout = Dropout(dropout)

    def forward(self, g: Float[Tensor, "B T D"], layout: Layout, memory: ConvolutionalMemory) -> Float[Tensor, "*BT D"]:
        """Decode the embedded target `g`, all positions at once."""
        memory = memory.matching(layout)
        windows, mask = Windows(layout, self.kernel_width, causal=True), AttentionMask.between(layout, memory.layout)
        # 2 x [*BS, D] -> [G, L, D]: attention's grid
        key, value = memory.layout.to_grid(memory.rows), memory.layout.to_grid(memory.value_rows)
        rows = layout.rows(g)
        h = rows
        for block in self.blocks:
            h = block(h, rows, windows, key, value, mask)
        # Dropout is applied to the padded batch, as for the embeddings, so that it does not depend on the layout.
        return layout.rows(self.dropout(layout.batch(h)))

    def step(
        self, g: Float[Tensor, "B D"], state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B D"], tuple[Float[Tensor, "B P D"], ...]]:
        """Decode one embedded target position.

        Returns:
            The output, and the `pasts` of the next state.
        """
        h, pasts = g, []
        for block, past in zip(self.blocks, state.pasts, strict=True):
            h, past = block.step(h, g, past, state.memory)
            pasts.append(past)
        return self.dropout(h), tuple(pasts)


def build_convolutional(config: ConvolutionalConfig) -> Convolutional:
    """Build and initialise the model that `config` describes."""
    source_tokens, target_tokens, output = vocabulary_matrices(
        config.source_vocabulary, config.target_vocabulary, config.d_model, config.tied_embeddings
    )

    def embedding(tokens: nn.Embedding) -> Embedding:
        return Embedding(tokens, LearnedPositions(config.max_positions, config.d_model), config.dropout, scaled=False)

    def convolution() -> GatedConvolution:
        return GatedConvolution(config.d_model, config.kernel_width, dropout=config.dropout)

    def decoder_block() -> DecoderBlock:
        return DecoderBlock(convolution(), MultiStepAttention(config.d_model))

    model = Convolutional(
        embedding(source_tokens),
        embedding(target_tokens),
        Encoder([convolution() for _ in range(config.encoder_layers)], config.kernel_width),
        Decoder([decoder_block() for _ in range(config.decoder_layers)], config.kernel_width, config.dropout),
        output,
    )
    initialise_convolutional(model, keep_probability=1 - config.dropout)
    return model


def initialise_convolutional(model: Convolutional, keep_probability: float) -> None:
    """Initialise so that every layer preserves the variance of its input (section 3.5).

    Embeddings are normal with standard deviation 0.1, and biases are zero. Matrices with n inputs are normal with
    variance 1/n. The variance is multiplied by 4 where a gate follows, because the gate divides it by 4, and by
    `keep_probability` where dropout precedes the matrix.
    """

    def embedding(module: nn.Embedding) -> None:
        nn.init.normal_(module.weight, std=0.1)

    def convolution(module: GatedConvolution) -> None:
        normal(module.kernel, math.sqrt(4 * keep_probability / module.kernel.in_features))

    def attention(module: MultiStepAttention) -> None:
        normal(module.query, math.sqrt(1 / module.query.in_features))

    rules: Rules = {nn.Embedding: embedding, GatedConvolution: convolution, MultiStepAttention: attention}
    initialise(model, rules, output_std=math.sqrt(keep_probability / model.output.in_features))
