"""The convolutional encoder-decoder, "ConvS2S" (Gehring et al., "Convolutional Sequence to Sequence Learning", 2017).

Read from the top: the model, its embeddings, encoder and decoder, then the builder and the initialisation.

What differs from the paper: weights are not normalised (Salimans and Kingma, 2016), as training is stable without. The
gradients of the encoder are not divided by the number of attentions (section 3.4); that was for gradient descent, while
a step of Adam or Muon does not depend on the scale of a gradient. Embeddings and blocks are of one width, so that the
linear maps between the two (section 3.2) are left out, but for the one in equation 1. The output has no bias. Where the
text leaves it open, √½ also scales the sum of a decoder block's state and what it attended to, as in the authors' code.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.convolution import GatedConvolution, Windows
from dragoman.layers.dropout import Dropout
from dragoman.layers.multi_step_attention import MultiStepAttention
from dragoman.layers.positions import LearnedPositions
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.embedding import vocabulary_matrices
from dragoman.models.seq2seq import AttentionModules, Memory, Seq2Seq
from dragoman.models.state import DecoderState
from dragoman.packing import Packing, packing_of


@dataclass(frozen=True)
class ConvolutionalMemory(Memory):
    """The encoded source: z in `states`, for the weights of attention, and what they are the weights of.

    values  [B, S, D]  √m (z + e) with e the embedded source of m tokens (equation 2, section 3.4)
    """

    values: Float[Tensor, "B S D"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "ConvolutionalMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return ConvolutionalMemory(self.states[rows], self.mask[rows], self.values[rows])


@dataclass(frozen=True)
class ConvolutionalState(DecoderState):
    """What the decoder remembers: the last k - 1 inputs of every block, the source, the next position.

    pasts  of each block [B, k-1, D]; zeros stand before the first token
    """

    pasts: tuple[Float[Tensor, "B P D"], ...]
    memory: ConvolutionalMemory
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> "ConvolutionalState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return ConvolutionalState(tuple(past[rows] for past in self.pasts), self.memory.reorder(rows), self.position)


class Convolutional(Seq2Seq):
    """The paper's model: embeddings, encoder, decoder with an attention in every block, output projection."""

    def __init__(
        self,
        source_embedding: "Embedding",
        target_embedding: "Embedding",
        encoder: "Encoder",
        decoder: "Decoder",
        output: nn.Linear,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> ConvolutionalMemory:
        """Read the source; `mask` is True where a token is real."""
        # [B, S] -> [B, S, D]
        return self.encoder(self.source_embedding(source), mask)

    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's output before the projection; no window of a position reaches beyond it."""
        assert isinstance(memory, ConvolutionalMemory)
        # [B, T] -> [B, T, D]
        return self.decoder(self.target_embedding(target), memory, target_mask)

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        return AttentionModules(encoder_decoder=tuple(block.attention.core for block in self.decoder.blocks))

    def start(self, memory: Memory) -> ConvolutionalState:
        """The state before the first target token."""
        assert isinstance(memory, ConvolutionalMemory)
        rows, _, d_model = memory.states.shape
        nothing = memory.states.new_zeros(rows, self.decoder.kernel_width - 1, d_model)
        return ConvolutionalState((nothing,) * len(self.decoder.blocks), memory, position=0)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], ConvolutionalState]:
        """Logits of the token that follows `token`; the same numbers as `decode` gives."""
        assert isinstance(state, ConvolutionalState)
        # [B] -> [B, 1] -> [B, 1, D] -> [B, D]
        g = self.target_embedding(token.unsqueeze(1), offset=state.position).squeeze(1)
        h, pasts = self.decoder.step(g, state)
        # [B, D] -> [B, V]
        return self.project(h), ConvolutionalState(pasts, state.memory, state.position + 1)


class Embedding(nn.Module):
    """e = w + p: a learned vector for the token and one for its position (section 3.1), then dropout."""

    def __init__(self, tokens: nn.Embedding, positions: LearnedPositions, dropout: float) -> None:
        super().__init__()
        self.tokens = tokens
        self.positions = positions
        self.dropout = Dropout(dropout)

    def forward(self, token: Int[Tensor, "B T"], offset: int = 0) -> Float[Tensor, "B T D"]:
        """Embed tokens, the first of which stands at position `offset`.

        Raises:
            CorpusError: when the sequence is longer than the positions that were learned.
        """
        # [B, T] -> [B, T, D]
        x = self.positions(self.tokens(token), offset)
        if torch.is_autocast_enabled(x.device.type):
            # Everything after this is in autocast's type, without casts between blocks.
            x = x.to(torch.get_autocast_dtype(x.device.type))
        return self.dropout(x)


class Encoder(nn.Module):
    """Gated convolutions, one on top of the other; each sees as many tokens before as after."""

    blocks: Sequence[GatedConvolution]

    def __init__(self, blocks: list[GatedConvolution], kernel_width: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.kernel_width = kernel_width

    def forward(self, e: Float[Tensor, "B S D"], real: Bool[Tensor, "B S"]) -> ConvolutionalMemory:
        """Read the embedded source `e`."""
        packing = packing_of(real)
        windows = Windows(real, self.kernel_width, causal=False, packing=packing)
        # [B, S, D] -> [N, D]
        z = e if packing is None else packing.pack(e)
        for block in self.blocks:
            z = block(z, windows)
        if packing is not None:
            # [N, D] -> [B, S, D]
            z = packing.unpack(z)
        # Were the weights of attention even, a mean of m vectors would have lost a factor √m (section 3.4).
        # [B, S] -> [B, 1, 1]
        m = real.sum(dim=1).to(z.dtype)[:, None, None]
        return ConvolutionalMemory(z, real, values=(z + e) * m.sqrt())


class DecoderBlock(nn.Module):
    """A causal gated convolution and its attention: h ← √½·(h + c) (sections 3.3 and 3.4)."""

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
        packing: Packing | None,
    ) -> Float[Tensor, "*BT D"]:
        """All target positions at once, [B, T, D] or rows [N, D] with their packing; `g` is the embedded target."""
        h = self.convolution(h, windows)
        return (h + self.attention(h, g, key, value, mask, packing)) * math.sqrt(0.5)

    def step(
        self,
        h: Float[Tensor, "B D"],
        g: Float[Tensor, "B D"],
        past: Float[Tensor, "B P D"],
        memory: ConvolutionalMemory,
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B P D"]]:
        """One target position: the same numbers as `forward` gives for it; and the past of the next one."""
        h, past = self.convolution.step(h, past)
        # 2 x [B, D] -> [B, 1, D] -> [B, D]
        mask = AttentionMask.padding(memory.mask)
        c = self.attention(h.unsqueeze(1), g.unsqueeze(1), memory.states, memory.values, mask).squeeze(1)
        return (h + c) * math.sqrt(0.5), past


class Decoder(nn.Module):
    """Decoder blocks, one on top of the other, then dropout; each sees the tokens before its position."""

    blocks: Sequence[DecoderBlock]

    def __init__(self, blocks: list[DecoderBlock], kernel_width: int, dropout: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.kernel_width = kernel_width
        self.dropout = Dropout(dropout)

    def forward(
        self,
        g: Float[Tensor, "B T D"],
        memory: ConvolutionalMemory,
        real: Bool[Tensor, "B T"] | None,
    ) -> Float[Tensor, "B T D"]:
        """Read the embedded target `g`, all positions at once."""
        packing = None if real is None else packing_of(real)
        if real is None:
            real = torch.ones(g.shape[:2], dtype=torch.bool, device=g.device)
        windows = Windows(real, self.kernel_width, causal=True, packing=packing)
        key, value, mask = memory.states, memory.values, AttentionMask.padding(memory.mask)
        if packing is not None:
            # [B, T, D] -> [N, D]
            g = packing.pack(g)
            source = Packing(memory.mask)
            # [B, S, D] -> [M, D] -> [G, L, D]: the grid in which the target attends
            key = source.to_grid(source.pack(key))
            # Zeros beyond the sentences, so that one without tokens gives zeros.
            value = source.to_grid(source.pack(value) * source.real.unsqueeze(-1))
            mask = AttentionMask.padding(source.attended)
        h = g
        for block in self.blocks:
            h = block(h, g, windows, key, value, mask, packing)
        # [N, D] -> [B, T, D]
        return self.dropout(h if packing is None else packing.unpack(h))

    def step(
        self, g: Float[Tensor, "B D"], state: ConvolutionalState
    ) -> tuple[Float[Tensor, "B D"], tuple[Float[Tensor, "B P D"], ...]]:
        """Read one embedded target position; the state's next pasts."""
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
        return Embedding(tokens, LearnedPositions(config.max_positions, config.d_model), config.dropout)

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
    initialise(model, kept=1 - config.dropout)
    return model


def initialise(model: Convolutional, kept: float) -> None:
    """Initialise so that every layer keeps the variance of its input (section 3.5).

    Embeddings are normal with standard deviation 0.1, biases zero. Matrices with n inputs are normal with variance
    1/n; times 4 where a gate follows, which quarters the variance; times `kept`, the probability with which dropout
    keeps an input, where that stands before them.
    """
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
        elif isinstance(module, GatedConvolution):
            nn.init.normal_(module.kernel.weight, std=math.sqrt(4 * kept / module.kernel.in_features))
            nn.init.zeros_(module.kernel.bias)
        elif isinstance(module, MultiStepAttention):
            nn.init.normal_(module.query.weight, std=math.sqrt(1 / module.query.in_features))
            nn.init.zeros_(module.query.bias)
    # Tied, it was just drawn as an embedding.
    if model.output.weight is not model.target_embedding.tokens.weight:
        nn.init.normal_(model.output.weight, std=math.sqrt(kept / model.output.in_features))
