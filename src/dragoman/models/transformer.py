"""The encoder-decoder Transformer (Vaswani et al., "Attention Is All You Need", 2017).

The file contains, in this order: the model, its encoder and decoder stacks, the builder and the initialisation.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.decoder_layer import DecoderLayer, LayerCache
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.positions import OneHotPositions
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.embedding import Embedding, vocabulary_matrices
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.initialisation import initialise, unit_after_scaling, xavier
from dragoman.models.layer_builders import (
    build_attention,
    build_encoder_layer,
    build_feed_forward,
    build_final_norm,
    build_positions,
    build_residual,
    build_self_attention,
)
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.packing import Layout


@dataclass(frozen=True)
class TransformerState(DecoderState):
    """State of the decoder between two steps.

    Attributes:
        layers: key-value cache of each layer.
        memory_mask: [B, S], True for the tokens of the source.
        position: index of the next target token.
    """

    layers: tuple[LayerCache, ...]
    memory_mask: Bool[Tensor, "B S"]
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> "TransformerState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        layers = tuple(layer.reorder(rows) for layer in self.layers)
        return TransformerState(layers, self.memory_mask[rows], self.position)


class Transformer(EncoderDecoder["Encoder", "Decoder", Memory]):
    """Embeddings, encoder stack, decoder stack, output projection (Vaswani et al. 2017, section 3)."""

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, offset: int = 0) -> Memory:
        """See `EncoderDecoder.encode_rows`."""
        # [B, S] -> [B, S, D] -> [*BS, D]
        mask = AttentionMask.between(layout, layout)
        return Memory(self.encoder(self.source_embedding(source, offset), mask), layout)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, offset: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`."""
        # [B, T] -> [B, T, D] -> [*BT, D]
        rows = self.decoder(self.target_embedding(target, offset), layout, memory)
        return Decoded(rows, layout, rows.new_zeros(()))

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        return AttentionModules(
            tuple(layer.self_attention.core for layer in self.encoder.layers),
            tuple(layer.self_attention.core for layer in self.decoder.layers),
            tuple(layer.memory_attention.core for layer in self.decoder.layers),
        )

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `Seq2Seq.layers_to_compile`."""
        return (*self.encoder.layers, *self.decoder.layers)

    def start(self, memory: Memory) -> TransformerState:
        """See `Seq2Seq.start`; keys and values of the source are computed once, here."""
        layers = tuple(layer.start(memory.states) for layer in self.decoder.layers)
        return TransformerState(layers, memory.mask, position=0)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], TransformerState]:
        """See `Seq2Seq.step`."""
        assert isinstance(state, TransformerState)
        x, layers = self.decoder.step(self.embed_token(token, state.position), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        logits = self.project(x.squeeze(1))
        return logits, TransformerState(layers, state.memory_mask, state.position + 1)


class Encoder(nn.Module):
    """A stack of N encoder layers, with a final norm in the case of pre-norm."""

    layers: Sequence[EncoderLayer]

    def __init__(self, layers: list[EncoderLayer], final_norm: nn.Module | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "B S D"], mask: AttentionMask) -> Float[Tensor, "*BS D"]:
        """Return the states after the last layer; the arguments are those of `states`."""
        return deque(self.states(x, mask), maxlen=1).pop()

    def states(self, x: Float[Tensor, "B S D"], mask: AttentionMask) -> Iterator[Float[Tensor, "*BS D"]]:
        """Yield the embeddings and the states after each layer.

        Args:
            x: embeddings of the source.
            mask: the positions that each position may attend to, with the layout of the rows.
        """
        assert mask.queries is not None
        rows = mask.queries.rows(x)
        for layer in self.layers:
            yield rows
            rows = layer(rows, mask)
        yield rows if self.final_norm is None else self.final_norm(rows, mask.real)


class Decoder(nn.Module):
    """A stack of N decoder layers, with a final norm in the case of pre-norm."""

    layers: Sequence[DecoderLayer]

    def __init__(self, layers: list[DecoderLayer], final_norm: nn.Module | None) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "B T D"], layout: Layout, memory: Memory) -> Float[Tensor, "*BT D"]:
        """Decode the embedded target, all positions at once."""
        memory = memory.matching(layout)
        rows, mask, memory_mask = (
            layout.rows(x),
            AttentionMask.past(layout),
            AttentionMask.between(layout, memory.layout),
        )
        for layer in self.layers:
            rows = layer(rows, memory.rows, mask, memory_mask)
        return rows if self.final_norm is None else self.final_norm(rows, layout.real)

    def step(
        self, x: Float[Tensor, "B 1 D"], state: TransformerState
    ) -> tuple[Float[Tensor, "B 1 D"], tuple[LayerCache, ...]]:
        """Decode one embedded target position.

        Returns:
            The output, and the caches of all layers after this position.
        """
        memory_mask = AttentionMask.padding(state.memory_mask)
        caches = []
        for layer, cache in zip(self.layers, state.layers, strict=True):
            x, cache = layer.step(x, cache, memory_mask, state.position)
            caches.append(cache)
        return x if self.final_norm is None else self.final_norm(x), tuple(caches)


def build_transformer(config: TransformerConfig) -> Transformer:
    """Build and initialise the model that `config` describes."""
    source_tokens, target_tokens, output = vocabulary_matrices(
        config.source_vocabulary, config.target_vocabulary, config.d_model, config.tied_embeddings
    )

    model = Transformer(
        Embedding(source_tokens, build_positions(config), config.dropout),
        Embedding(target_tokens, build_positions(config), config.dropout),
        Encoder([build_encoder_layer(config) for _ in range(config.encoder_layers)], build_final_norm(config)),
        Decoder([_decoder_layer(config) for _ in range(config.decoder_layers)], build_final_norm(config)),
        output,
        random_positions=config.random_positions,
    )
    initialise_transformer(model)
    return model


def initialise_transformer(model: Transformer) -> None:
    """Initialise as in the paper's reference implementation (tensor2tensor).

    Matrices are uniform with variance 2 / (fan-in + fan-out), and biases are zero. Embeddings are normal with standard
    deviation d_model^-0.5, so that multiplied by √d_model they have variance 1. One-hot positions, which the reference
    implementation does not have, start as learned positions: W_I is the identity, and W_P is initialised as an
    embedding.
    """
    initialise(model, {nn.Linear: xavier, nn.Embedding: unit_after_scaling}, output_std=model.output.in_features**-0.5)
    for embedding in (model.source_embedding, model.target_embedding):
        if isinstance(embedding.positions, OneHotPositions):
            nn.init.eye_(embedding.positions.words.weight)


def _decoder_layer(config: TransformerConfig) -> DecoderLayer:
    return DecoderLayer(
        build_self_attention(config, future=False),
        build_attention(config),
        build_feed_forward(config),
        build_residual(config),
        build_residual(config),
        build_residual(config),
    )
