"""The Universal Transformer (Dehghani et al., "Universal Transformers", 2018): a Transformer recurrent in depth.

One encoder block and one decoder block, which are layers of the Transformer, are applied to all positions again and
again, a fixed number of times or until each position has halted. Read from the top: the model, its encoder and decoder,
then the builder.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.decoder_layer import DecoderLayer, LayerCache
from dragoman.layers.encoder_layer import EncoderLayer
from dragoman.layers.halting import AdaptiveDepth, FixedDepth, Pondered
from dragoman.layers.positions import random_start
from dragoman.layers.signals import Signals
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.config.universal import UniversalConfig
from dragoman.models.embedding import Embedding
from dragoman.models.seq2seq import AttentionModules, Memory, Seq2Seq
from dragoman.models.state import DecoderState
from dragoman.models.transformer import build_transformer
from dragoman.packing import Packing, packing_of


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


class Universal(Seq2Seq):
    """Embeddings, encoder, decoder, output projection; its own cost is that of pondering.

    Args:
        ponder_weight: τ, what a step of a position costs, in nats (Graves, 2016, section 2.1).
        random_positions: in training, each batch's sources and targets start at random positions below this; 0: at 0.
            So the signals of positions beyond the corpus's lengths are seen, and relative position is all there is to
            learn (Dehghani et al., 2018, section 3.2).
    """

    def __init__(
        self,
        source_embedding: Embedding,
        target_embedding: Embedding,
        encoder: "UniversalEncoder",
        decoder: "UniversalDecoder",
        output: nn.Linear,
        *,
        ponder_weight: float,
        random_positions: int,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.target_embedding = target_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.output = output
        self.ponder_weight = ponder_weight
        self.random_positions = random_positions

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Read the source; `mask` is True where a token is real."""
        return Memory(self._encode(source, mask).output, mask)

    def decode_states(
        self,
        target: Int[Tensor, "B T"],
        memory: Memory,
        target_mask: Bool[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        """The decoder's output before the projection, all positions under the causal mask."""
        return self._decode(target, memory, target_mask).output

    def forward(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, ""]]:
        """The states of `decode_states`, and τ Σρ over the real tokens of source and target, in nats."""
        encoded, decoded = self._ponder(source, source_mask, target, target_mask)
        return decoded.output, self.ponder_weight * (encoded.ponder.sum() + decoded.ponder.sum())

    def figures(
        self,
        source: Int[Tensor, "B S"],
        source_mask: Bool[Tensor, "B S"],
        target: Int[Tensor, "B T"],
        target_mask: Bool[Tensor, "B T"],
    ) -> dict[str, Float[Tensor, " _"]]:
        """How many steps each real token of source and target took, sentence after sentence."""
        encoded, decoded = self._ponder(source, source_mask, target, target_mask)
        # [B, S] -> [N]; [B, T] -> [M]
        return {"encoder steps": encoded.steps[source_mask], "decoder steps": decoded.steps[target_mask]}

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
        # [B] -> [B, 1] -> [B, 1, D]
        x, steps = self.decoder.step(self.target_embedding(token.unsqueeze(1)), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(x.squeeze(1)), UniversalState(steps, state.memory_mask, state.position + 1)

    def _ponder(
        self, source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor
    ) -> tuple[Pondered, Pondered]:
        first = random_start(self.random_positions) if self.training else 0
        encoded = self._encode(source, source_mask, first)
        return encoded, self._decode(target, Memory(encoded.output, source_mask), target_mask, first)

    def _encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], first: int = 0) -> Pondered:
        # [B, S] -> [B, S, D]
        return self.encoder(self.source_embedding(source), mask, first)

    def _decode(
        self, target: Int[Tensor, "B T"], memory: Memory, mask: Bool[Tensor, "B T"] | None, first: int = 0
    ) -> Pondered:
        # [B, T] -> [B, T, D]
        return self.decoder(self.target_embedding(target), memory, mask, first)


class UniversalEncoder(nn.Module):
    """One encoder block, applied again and again; pre-norm needs one more norm at the end."""

    def __init__(
        self,
        block: EncoderLayer,
        signals: Signals,
        depth: FixedDepth | AdaptiveDepth,
        final_norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.block = block
        self.signals = signals
        self.depth = depth
        self.final_norm = final_norm

    def forward(self, x: Float[Tensor, "B S D"], real: Bool[Tensor, "B S"], offset: int = 0) -> Pondered:
        """Transform the embedded source, whose first token stands at position `offset`."""
        packing = packing_of(real)
        mask = AttentionMask.padding(real)
        positions = self.signals.positions(x, offset)
        if packing is not None:
            # 2 x [B, S, D] -> [N, D]
            x, positions = packing.pack(x), packing.pack(positions)
            real, mask = packing.real, AttentionMask.padding(packing.attended)

        def apply(state: Tensor, step: int) -> Tensor:
            return self.block(self.signals(state, positions, step), mask, real, packing)

        return _finished(self.depth(x, apply, real), self.final_norm, packing)


class UniversalDecoder(nn.Module):
    """One decoder block, applied again and again; pre-norm needs one more norm at the end."""

    def __init__(
        self,
        block: DecoderLayer,
        signals: Signals,
        depth: FixedDepth | AdaptiveDepth,
        final_norm: nn.Module | None,
    ) -> None:
        super().__init__()
        self.block = block
        self.signals = signals
        self.depth = depth
        self.final_norm = final_norm

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Memory, real: Bool[Tensor, "B T"] | None, offset: int = 0
    ) -> Pondered:
        """Transform the embedded target, all positions at once; its first token stands at position `offset`."""
        packing, memory_packing = None if real is None else packing_of(real), packing_of(memory.mask)
        states, memory_mask = memory.states, AttentionMask.padding(memory.mask)
        positions = self.signals.positions(x, offset)
        if packing is not None and memory_packing is not None:
            # 2 x [B, T, D] -> [N, D]; [B, S, D] -> [M, D]
            x, positions, states = packing.pack(x), packing.pack(positions), memory_packing.pack(states)
            real, memory_mask = packing.real, AttentionMask.padding(memory_packing.attended)
        else:
            packing = memory_packing = None

        def apply(state: Tensor, step: int) -> Tensor:
            signalled = self.signals(state, positions, step)
            return self.block(signalled, states, memory_mask, real, packing, memory_packing)

        return _finished(self.depth(x, apply, real), self.final_norm, packing)

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
        return _finished(pondered, self.final_norm, None).output, tuple(caches)

    def _remember(self, x: Float[Tensor, "B 1 D"], cache: LayerCache, position: int) -> LayerCache:
        """The cache with the keys and values of a position that halted before; the rest of the block is not needed."""

        def append(y: Tensor) -> Tensor:
            nonlocal cache
            key, value = self.block.self_attention.project_memory(y, offset=position)
            # [B, H, t, K] and [B, H, 1, K] -> [B, H, t+1, K]
            cache = replace(
                cache,
                self_key=torch.cat((cache.self_key, key), dim=2),
                self_value=torch.cat((cache.self_value, value), dim=2),
            )
            return y

        # The residual knows whether its norm stands before the projections.
        self.block.self_residual(x, append)
        return cache


def _finished(pondered: Pondered, final_norm: nn.Module | None, packing: Packing | None) -> Pondered:
    """The output normed, where a norm is left to do, and rows as a batch again."""
    if final_norm is not None:
        pondered = replace(pondered, output=final_norm(pondered.output))
    if packing is None:
        return pondered
    # 2 x [N, D] -> [B, T, D]; 2 x [N] -> [N, 1] -> [B, T, 1] -> [B, T]
    return Pondered(
        packing.unpack(pondered.output),
        packing.unpack(pondered.state),
        packing.unpack(pondered.steps.unsqueeze(1)).squeeze(2),
        packing.unpack(pondered.ponder.unsqueeze(1)).squeeze(2),
    )


def build_universal(config: UniversalConfig) -> Universal:
    """Build and initialise the model that `config` describes."""
    # Its parts are those of a Transformer of one layer, and are initialised like them.
    transformer = build_transformer(
        TransformerConfig(
            source_vocabulary=config.source_vocabulary,
            target_vocabulary=config.target_vocabulary,
            encoder_layers=1,
            decoder_layers=1,
            d_model=config.d_model,
            heads=config.heads,
            d_ff=config.d_ff,
            dropout=config.dropout,
            norm_placement=config.norm_placement,
            norm=config.norm,
            activation=config.activation,
            tied_embeddings=config.tied_embeddings,
        )
    )
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
