"""The Universal Transformer (Dehghani et al., "Universal Transformers", 2018): a Transformer recurrent in depth.

One encoder block and one decoder block, which are layers of the Transformer, are applied to all positions again and
again, a fixed number of times or until each position has halted. Read from the top: the model, its encoder and decoder,
then the builder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.decoder_layer import DecoderLayer, LayerCache
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.halting import AdaptiveDepth, FixedDepth, Pondered
from dragoman.layers.signals import Signals
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
    """What the decoder remembers: a cache per step of its depth, the source's mask, the next position.

    The block is the same at every step, and so are the keys and values of the source: all caches share them.
    """

    steps: tuple[LayerCache, ...]
    memory_mask: Bool[Tensor, "B S"]
    position: int

    def reorder(self, rows: Int[Tensor, " N"]) -> "UniversalState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        memory_key, memory_value = self.steps[0].memory_key[rows], self.steps[0].memory_value[rows]
        steps = tuple(
            LayerCache(cache.self_key[rows], cache.self_value[rows], memory_key, memory_value) for cache in self.steps
        )
        return UniversalState(steps, self.memory_mask[rows], self.position)


@dataclass(frozen=True)
class PonderedMemory(Memory):
    """The encoded source, and what it took to encode it.

    steps   [*BS]  how often each position was revised
    ponder  [*BS]  what there is to pay for each
    """

    steps: Float[Tensor, "*BS"]
    ponder: Float[Tensor, "*BS"]

    def in_layout(self, layout: Layout) -> "PonderedMemory":
        """The same memory in another layout of the same batch."""
        return PonderedMemory(layout.rows(self.states), layout, *layout.rows(self._token_statistics()).unbind(-1))

    def reorder(self, rows: Int[Tensor, " N"]) -> "PonderedMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return PonderedMemory(self.states[rows], Padded(self.mask[rows]), *self._token_statistics()[rows].unbind(-1))

    def _token_statistics(self) -> Float[Tensor, "B S 2"]:
        # 2 x [*BS] -> [*BS, 2] -> [B, S, 2]
        return self.layout.batch(torch.stack((self.steps, self.ponder), dim=-1))


class Universal(EncoderDecoder["UniversalEncoder", "UniversalDecoder", PonderedMemory]):
    """Embeddings, encoder, decoder, output projection; its own cost is that of pondering.

    Random positions show it the signals of positions beyond the corpus's lengths, and relative position is all there is
    to learn (Dehghani et al., 2018, section 3.2).

    Args:
        ponder_weight: τ, what a step of a position costs, in nats (Graves, 2016, section 2.1).
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

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, first: int = 0) -> PonderedMemory:
        """See `EncoderDecoder.encode_rows`."""
        # [B, S] -> [B, S, D] -> [*BS, D]
        pondered = self.encoder(self.source_embedding(source), layout, first)
        return PonderedMemory(pondered.output, layout, pondered.steps, pondered.ponder)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, first: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`; the cost is τ Σρ over the real tokens of source and target, in nats."""
        assert isinstance(memory, PonderedMemory)
        # [B, T] -> [B, T, D] -> [*BT, D]
        pondered = self.decoder(self.target_embedding(target), layout, memory, first)
        cost = self.ponder_weight * (memory.ponder.sum() + pondered.ponder.sum())
        return Decoded(pondered.output, layout, cost)

    def token_statistics(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> dict[str, Float[Tensor, " _"]]:
        """How many steps each real token of source and target took, sentence after sentence."""
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
        """The state before the first target token: the source's keys and values, projected once."""
        cache = self.decoder.block.start(memory.states)
        return UniversalState((cache,) * self.decoder.depth.steps, memory.mask, position=0)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], UniversalState]:
        """Logits of the token that follows `token`; the same numbers as `decode` gives."""
        assert isinstance(state, UniversalState)
        x, steps = self.decoder.step(self.embed_token(token), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(x.squeeze(1)), UniversalState(steps, state.memory_mask, state.position + 1)


class Repeated(nn.Module, Generic[Block]):
    """One block, applied again and again; pre-norm needs one more norm at the end."""

    def __init__(
        self,
        block: Block,
        signals: Signals,
        depth: FixedDepth | AdaptiveDepth,
        final_norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.block = block
        self.signals = signals
        self.depth = depth
        self.final_norm = final_norm

    def finished(self, pondered: Pondered) -> Pondered:
        """The output normed, where a norm is left to do."""
        return pondered if self.final_norm is None else replace(pondered, output=self.final_norm(pondered.output))


class UniversalEncoder(Repeated[EncoderLayer]):
    """The encoder block, over all positions of the source."""

    def forward(self, x: Float[Tensor, "B S D"], layout: Layout, offset: int = 0) -> Pondered:
        """Transform the embedded source, whose first token is at position `offset`."""
        positions, mask = layout.rows(self.signals.positions(x, offset)), AttentionMask.between(layout, layout)

        def apply(state: Tensor, step: int) -> Tensor:
            return self.block(self.signals(state, positions, step), mask)

        return self.finished(self.depth(layout.rows(x), apply, layout.real))


class UniversalDecoder(Repeated[DecoderLayer]):
    """The decoder block, over all positions of the target or one at a time."""

    def forward(self, x: Float[Tensor, "B T D"], layout: Layout, memory: Memory, offset: int = 0) -> Pondered:
        """Transform the embedded target, all positions at once; its first token is at position `offset`."""
        memory = memory.beside(layout)
        positions = layout.rows(self.signals.positions(x, offset))
        mask, memory_mask = AttentionMask.past(layout), AttentionMask.between(layout, memory.layout)

        def apply(state: Tensor, step: int) -> Tensor:
            return self.block(self.signals(state, positions, step), memory.rows, mask, memory_mask)

        return self.finished(self.depth(layout.rows(x), apply, layout.real))

    def step(
        self, x: Float[Tensor, "B 1 D"], state: UniversalState
    ) -> tuple[Float[Tensor, "B 1 D"], tuple[LayerCache, ...]]:
        """Transform one embedded target position."""
        memory_mask = AttentionMask.padding(state.memory_mask)
        positions = self.signals.positions(x, state.position)
        caches: list[LayerCache] = []

        def apply(h: Tensor, step: int) -> Tensor:
            h = self.signals(h, positions, step)
            h, cache = self.block.step(h, state.steps[step - 1], memory_mask, state.position)
            caches.append(cache)
            return h

        pondered = self.depth(x, apply)
        # A later position may take more steps than these took, and attends to their copies then.
        for step in range(len(caches) + 1, self.depth.steps + 1):
            copy = self.signals(pondered.state, positions, step)
            caches.append(self._remember(copy, state.steps[step - 1], state.position))
        return self.finished(pondered).output, tuple(caches)

    def _remember(self, x: Float[Tensor, "B 1 D"], cache: LayerCache, position: int) -> LayerCache:
        """The cache with the keys and values of a position that halted before; the rest of the block is not needed."""

        def append(y: Tensor) -> Tensor:
            nonlocal cache
            key, value = self.block.self_attention.project_memory(y, offset=position)
            cache = cache.extended(key, value)
            return y

        # The residual knows whether its norm stands before the projections.
        self.block.self_residual(x, append)
        return cache


def build_universal(config: UniversalConfig) -> Universal:
    """Build and initialise the model that `config` describes."""
    # Its parts are those of a Transformer of one layer, and are initialised like them.
    transformer = build_transformer(config.one_layer())
    encoder, decoder = transformer.encoder, transformer.decoder
    return Universal(
        Embedding(transformer.source_embedding.tokens, None, config.dropout),
        Embedding(transformer.target_embedding.tokens, None, config.dropout),
        UniversalEncoder(
            encoder.layers[0],
            Signals(config.d_model, config.encoder_steps),
            _depth(config, config.encoder_steps),
            encoder.final_norm,
        ),
        UniversalDecoder(
            decoder.layers[0],
            Signals(config.d_model, config.decoder_steps),
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
