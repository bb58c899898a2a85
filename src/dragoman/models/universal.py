"""The Universal Transformer (Dehghani et al., "Universal Transformers", 2018): a Transformer recurrent in depth.

One encoder block and one decoder block, which are layers of the Transformer, are applied repeatedly to all positions: a
fixed number of times, or until each position has halted. The file contains, in this order: the model, its encoder and
decoder, and the builder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.coordinate_embeddings import CoordinateEmbeddings
from dragoman.layers.decoder_layer import DecoderLayer, LayerCache
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.halting import AdaptiveDepth, DepthOutput, FixedDepth
from dragoman.models.config.universal import UniversalConfig
from dragoman.models.embedding import Embedding
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.models.transformer import build_transformer
from dragoman.packing import Layout, Padded, layout_of

Block = TypeVar("Block", bound=nn.Module)


@dataclass(frozen=True)
class UniversalState(DecoderState):
    """State of the decoder between two target positions.

    Attributes:
        steps: key-value cache of each application of the block. All caches share the keys and values of the source,
            because the block is the same at every step.
        memory_mask: [B, S], True for the tokens of the source.
        position: index of the next target token.
    """

    steps: tuple[LayerCache, ...]
    memory_mask: Bool[Tensor, "B S"]
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> "UniversalState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        memory = self.steps[0].memory.reorder(rows)
        steps = tuple(LayerCache(cache.past.reorder(rows), memory) for cache in self.steps)
        return UniversalState(steps, self.memory_mask[rows], self.position)


@dataclass(frozen=True)
class UniversalMemory(Memory):
    """The encoded source, with the number of steps and the ponder cost of each position.

    Attributes:
        steps: [*BS], number of times that the state of each position was updated.
        ponder: [*BS], ponder cost ρ of each position, before multiplication by τ.
    """

    steps: Float[Tensor, "*BS"]
    ponder: Float[Tensor, "*BS"]

    def in_layout(self, layout: Layout) -> "UniversalMemory":
        """Return the same memory in another layout of the same batch."""
        return UniversalMemory(layout.rows(self.states), layout, *layout.rows(self._steps_and_ponder()).unbind(-1))

    def reorder(self, rows: Int[Tensor, " N"]) -> "UniversalMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return UniversalMemory(self.states[rows], Padded(self.mask[rows]), *self._steps_and_ponder()[rows].unbind(-1))

    def _steps_and_ponder(self) -> Float[Tensor, "B S 2"]:
        # 2 x [*BS] -> [*BS, 2] -> [B, S, 2]
        return self.layout.batch(torch.stack((self.steps, self.ponder), dim=-1))


class Universal(EncoderDecoder["UniversalEncoder", "UniversalDecoder", UniversalMemory]):
    """Embeddings, encoder, decoder, output projection; the ponder cost is added to the loss.

    With random positions, training covers the embeddings of positions beyond the longest sentence of the corpus, and
    only relative positions are informative (Dehghani et al., 2018, section 3.2).

    Args:
        source_embedding: embedding of source tokens.
        target_embedding: embedding of target tokens.
        encoder: the encoder.
        decoder: the decoder.
        output: projection onto the target vocabulary, without bias.
        random_positions: see `EncoderDecoder`.
        ponder_weight: τ, cost of one step of one position, in nats (Graves, 2016, section 2.1).
    """

    def __init__(
        self,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: "UniversalEncoder",
        decoder: "UniversalDecoder",
        output: nn.Linear,
        *,
        random_positions: int = 0,
        ponder_weight: float,
    ) -> None:
        super().__init__(
            source_embedding, target_embedding, encoder, decoder, output, random_positions=random_positions
        )
        self.ponder_weight = ponder_weight

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, offset: int = 0) -> UniversalMemory:
        """See `EncoderDecoder.encode_rows`."""
        # [B, S] -> [B, S, D] -> [*BS, D]
        encoded = self.encoder(self.source_embedding(source), layout, offset)
        return UniversalMemory(encoded.output, layout, encoded.steps, encoded.ponder)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, offset: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`; the cost is τ Σρ over the real tokens of source and target, in nats."""
        assert isinstance(memory, UniversalMemory)
        # [B, T] -> [B, T, D] -> [*BT, D]
        decoded = self.decoder(self.target_embedding(target), layout, memory, offset)
        cost = self.ponder_weight * (memory.ponder.sum() + decoded.ponder.sum())
        return Decoded(decoded.output, layout, cost)

    def token_statistics(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> dict[str, Float[Tensor, " _"]]:
        """Return the number of steps for each real token of source and target, sentence by sentence."""
        memory, layout = self.encode_rows(source, layout_of(source_mask)), layout_of(target_mask)
        decoded = self.decoder(self.target_embedding(target), layout, memory)
        # [*BS] -> [N]; [*BT] -> [M]
        return {"encoder steps": memory.steps[memory.layout.real], "decoder steps": decoded.steps[layout.real]}

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        encoder, decoder = self.encoder.block, self.decoder.block
        return AttentionModules(
            (encoder.self_attention.core,), (decoder.self_attention.core,), (decoder.memory_attention.core,)
        )

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `Seq2Seq.layers_to_compile`."""
        return self.encoder.block, self.decoder.block

    def start(self, memory: Memory) -> UniversalState:
        """See `Seq2Seq.start`; keys and values of the source are computed once, here."""
        cache = self.decoder.block.start(memory.states)
        return UniversalState((cache,) * self.decoder.depth.steps, memory.mask, position=0)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], UniversalState]:
        """See `Seq2Seq.step`."""
        assert isinstance(state, UniversalState)
        x, steps = self.decoder.step(self.embed_token(token), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(x.squeeze(1)), UniversalState(steps, state.memory_mask, state.position + 1)


class RepeatedBlock(nn.Module, Generic[Block]):
    """A block that is applied repeatedly, with a final norm in the case of pre-norm."""

    def __init__(
        self,
        block: Block,
        coordinates: CoordinateEmbeddings,
        depth: FixedDepth | AdaptiveDepth,
        final_norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.block = block
        self.coordinates = coordinates
        self.depth = depth
        self.final_norm = final_norm

    def apply_final_norm(self, result: DepthOutput) -> DepthOutput:
        """Return `result` with its output normalised by the final norm, if there is one."""
        return result if self.final_norm is None else replace(result, output=self.final_norm(result.output))


class UniversalEncoder(RepeatedBlock[EncoderLayer]):
    """The encoder block, applied to all positions of the source."""

    def forward(self, x: Float[Tensor, "B S D"], layout: Layout, offset: int = 0) -> DepthOutput:
        """Encode the embedded source, whose first token is at position `offset`."""
        positions, mask = layout.rows(self.coordinates.positions(x, offset)), AttentionMask.between(layout, layout)

        def apply(state: Tensor, step: int) -> Tensor:
            return self.block(self.coordinates(state, positions, step), mask)

        return self.apply_final_norm(self.depth(layout.rows(x), apply, layout.real))


class UniversalDecoder(RepeatedBlock[DecoderLayer]):
    """The decoder block, applied to all positions of the target or to one at a time."""

    def forward(self, x: Float[Tensor, "B T D"], layout: Layout, memory: Memory, offset: int = 0) -> DepthOutput:
        """Decode the embedded target, all positions at once; its first token is at position `offset`."""
        memory = memory.matching(layout)
        positions = layout.rows(self.coordinates.positions(x, offset))
        mask, memory_mask = AttentionMask.past(layout), AttentionMask.between(layout, memory.layout)

        def apply(state: Tensor, step: int) -> Tensor:
            return self.block(self.coordinates(state, positions, step), memory.rows, mask, memory_mask)

        return self.apply_final_norm(self.depth(layout.rows(x), apply, layout.real))

    def step(
        self, x: Float[Tensor, "B 1 D"], state: UniversalState
    ) -> tuple[Float[Tensor, "B 1 D"], tuple[LayerCache, ...]]:
        """Decode one embedded target position.

        Returns:
            The output, and the caches of all steps after this position.
        """
        memory_mask = AttentionMask.padding(state.memory_mask)
        positions = self.coordinates.positions(x, state.position)
        caches: list[LayerCache] = []

        def apply(h: Tensor, step: int) -> Tensor:
            h = self.coordinates(h, positions, step)
            h, cache = self.block.step(h, state.steps[step - 1], memory_mask, state.position)
            caches.append(cache)
            return h

        result = self.depth(x, apply)
        # A later position may need more steps than this one, and then attends to copies of this position's last state.
        for step in range(len(caches) + 1, self.depth.steps + 1):
            last_state = self.coordinates(result.state, positions, step)
            caches.append(self._append_to_cache(last_state, state.steps[step - 1], state.position))
        return self.apply_final_norm(result).output, tuple(caches)

    def _append_to_cache(self, x: Float[Tensor, "B 1 D"], cache: LayerCache, position: int) -> LayerCache:
        """Append the keys and values of a position that has halted, without computing the rest of the block."""

        def append(y: Tensor) -> Tensor:
            nonlocal cache
            key, value = self.block.self_attention.project_memory(y, offset=position)
            cache = replace(cache, past=cache.past.extended(key, value))
            return y

        # The residual is needed because, with pre-norm, it normalises x before the projections.
        self.block.self_residual(x, append)
        return cache


def build_universal(config: UniversalConfig) -> Universal:
    """Build and initialise the model that `config` describes."""
    # The parts are taken from a Transformer with one layer, with its initialisation.
    transformer = build_transformer(config.one_layer())
    encoder, decoder = transformer.encoder, transformer.decoder
    return Universal(
        Embedding(transformer.source_embedding.tokens, None, config.dropout),
        Embedding(transformer.target_embedding.tokens, None, config.dropout),
        UniversalEncoder(
            encoder.layers[0],
            CoordinateEmbeddings(config.d_model, config.encoder_steps, config.position_base),
            _depth(config, config.encoder_steps),
            encoder.final_norm,
        ),
        UniversalDecoder(
            decoder.layers[0],
            CoordinateEmbeddings(config.d_model, config.decoder_steps, config.position_base),
            _depth(config, config.decoder_steps),
            decoder.final_norm,
        ),
        transformer.output,
        ponder_weight=config.ponder_weight,
        random_positions=config.random_positions,
    )


def _depth(config: UniversalConfig, steps: int) -> FixedDepth | AdaptiveDepth:
    match config.halting:
        case "fixed":
            return FixedDepth(steps)
        case "adaptive":
            return AdaptiveDepth(config.d_model, steps, config.halting_threshold)
