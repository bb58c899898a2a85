"""The recurrent encoder-decoder, with or without attention.

Sources: Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014); Bahdanau et al., "Neural Machine
Translation by Jointly Learning to Align and Translate" (2015); Luong et al., "Effective Approaches to Attention-based
Neural Machine Translation" (2015).

The decoder follows Luong et al. for every attention score: the state at a position is computed first, and then attends
to the source. The file contains, in this order: the model, its encoder and decoder, the builder and the initialisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.dropout import Dropout
from dragoman.layers.recurrence import CellState, RecurrentEncoderLayer, RecurrentLayer
from dragoman.layers.recurrent_attention import (
    AdditiveScore,
    AttentionScore,
    DotScore,
    GeneralScore,
    ProjectedSource,
    RecurrentAttention,
)
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.embedding import Embedding, vocabulary_matrices
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.initialisation import Rules, initialise, recurrent_gates, unit_after_scaling, xavier
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.packing import Layout, Padded


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """The encoded source, with the states from which the decoder starts.

    Attributes:
        final: [B, N, D], the state of each of the N encoder layers at the end of the sentence.
    """

    final: Float[Tensor, "B N D"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "RecurrentMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return RecurrentMemory(self.states[rows], Padded(self.mask[rows]), self.final[rows])


@dataclass(frozen=True)
class RecurrentState(DecoderState):
    """State of the decoder between two steps.

    Attributes:
        layers: the state of each layer.
        attentional: [B, D], the attentional state at the previous position, zeros at the first position; [B, 0] without
            input feeding.
        source: the source with its attention keys; None without attention.
    """

    layers: tuple[CellState, ...]
    attentional: Float[Tensor, "B F"]
    source: ProjectedSource | None

    def reorder(self, rows: Int[Tensor, " N"]) -> "RecurrentState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        layers = tuple(tuple(part[rows] for part in layer) for layer in self.layers)
        source = None if self.source is None else self.source.reorder(rows)
        return RecurrentState(layers, self.attentional[rows], source)


class Recurrent(EncoderDecoder["Encoder", "Decoder", RecurrentMemory]):
    """Embeddings, encoder, decoder, output projection. The layers need padded batches, with padding at the end."""

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, offset: int = 0) -> RecurrentMemory:
        """See `EncoderDecoder.encode_rows`; `offset` has no effect, and the returned memory is padded."""
        # [B, S] -> [B, S, D] and [B, N, D]
        states, final = self.encoder(self.source_embedding(source), layout.mask)
        return RecurrentMemory(states, Padded(layout.mask), final)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, offset: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`; `offset` has no effect."""
        # [B, T] -> [B, T, D] -> [*BT, D]
        rows = layout.rows(self.decoder(self.target_embedding(target), self.start(memory)))
        return Decoded(rows, layout, rows.new_zeros(()))

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        attention = self.decoder.attention
        return AttentionModules(encoder_decoder=() if attention is None else (attention.weights,))

    def start(self, memory: Memory) -> RecurrentState:
        """See `Seq2Seq.start`."""
        assert isinstance(memory, RecurrentMemory)
        return self.decoder.start(memory)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        """See `Seq2Seq.step`."""
        assert isinstance(state, RecurrentState)
        x, state = self.decoder.unroll(self.embed_token(token), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(x.squeeze(1)), state


class Encoder(nn.Module):
    """A stack of N recurrent layers, with dropout between them (Zaremba et al. 2014)."""

    layers: Sequence[RecurrentEncoderLayer]

    def __init__(self, layers: list[RecurrentEncoderLayer], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B S D"], real: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B N D"]]:
        """Return the states of the last layer, and the state of every layer at the end of the sentence.

        Args:
            x: the embedded source.
            real: True for tokens, False for padding, which is at the end.
        """
        lengths = real.sum(dim=1)
        final: list[Tensor] = []
        for layer in self.layers:
            x, last = layer(self.dropout(x) if final else x, lengths)
            final.append(last)
        # N x [B, D] -> [B, N, D]
        return x, torch.stack(final, dim=1)


class Decoder(nn.Module):
    """A stack of N recurrent layers, followed by attention to the source.

    Without attention, the initial states are the only information about the source.

    Args:
        layers: the layers. With input feeding, the input of the first is [x; ũ], the concatenation of the embedded
            token and the attentional state at the previous position (Luong et al. 2015, section 3.3).
        bridge: for each layer, the projection from the encoder's final state to its initial state.
        attention: None to use the state of the last layer as the output.
        input_feeding: True to feed the attentional state back; requires `attention`.
        dropout: probability of dropping a feature between layers and on the output (Zaremba et al. 2014), but not in
            the attentional state that is fed back.
    """

    layers: Sequence[RecurrentLayer]
    bridge: Sequence[nn.Linear]

    def __init__(
        self,
        layers: list[RecurrentLayer],
        bridge: list[nn.Linear],
        attention: RecurrentAttention | None,
        *,
        input_feeding: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        assert attention is not None or not input_feeding, "input feeding requires an attention"
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.bridge = nn.ModuleList(bridge)  # type: ignore[assignment]
        self.attention = attention
        self.input_feeding = input_feeding
        self.dropout = Dropout(dropout)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """Return the initial state tanh(W h + b), with h the encoder's state at the end of the source.

        Source: Bahdanau et al. (2015), appendix A.2.2. The last decoder layer uses the last encoder layer, the layer
        below it uses the encoder layer below, and so on. If the encoder has fewer layers, the lowest decoder layers all
        use its first layer. For an LSTM, both h and c are computed from the encoder's h.
        """
        states = []
        for layer, bridge in enumerate(self.bridge):
            encoder_layer = max(0, memory.final.shape[1] - len(self.bridge) + layer)
            # [B, D] -> [B, parts*D] -> parts x [B, D]
            states.append(bridge(memory.final[:, encoder_layer]).tanh().split(memory.final.shape[2], dim=-1))
        attentional = memory.final.new_zeros(len(memory.final), memory.final.shape[2] if self.input_feeding else 0)
        source = None
        if self.attention is not None:
            source = self.attention.project_source(memory.states, AttentionMask.padding(memory.mask))
        return RecurrentState(tuple(states), attentional, source)

    def forward(self, x: Float[Tensor, "B T D"], state: RecurrentState) -> Float[Tensor, "B T D"]:
        """Decode all positions, starting from `state`; without input feeding, one layer at a time."""
        if self.input_feeding:
            return self.unroll(x, state)[0]
        for i, (layer, initial) in enumerate(zip(self.layers, state.layers, strict=True)):
            x = layer(self.dropout(x) if i else x, initial)
        if self.attention is not None and state.source is not None:
            x = self.attention.unroll(state.source, positions=x.shape[1])(x)
        return self.dropout(x)

    def unroll(self, x: Float[Tensor, "B T D"], state: RecurrentState) -> tuple[Float[Tensor, "B T D"], RecurrentState]:
        """Decode position by position; return the outputs, which equal those of `forward`, and the final state."""
        # [B, T, D] -> [T, B, D]; only the first layer's input is available in advance, hence [T, B, 0] for the others
        prefix = x.transpose(0, 1)
        advances = [layer.unroll(prefix if i == 0 else prefix[..., :0]) for i, layer in enumerate(self.layers)]
        attend = None
        if self.attention is not None and state.source is not None:
            attend = self.attention.unroll(state.source, calls=len(prefix))
        layers, attentional, outputs = list(state.layers), state.attentional, []
        for _ in range(len(prefix)):
            u = attentional
            for i, advance in enumerate(advances):
                layers[i] = advance(self.dropout(u) if i else u, layers[i])
                u = layers[i][0]
            if attend is not None:
                # [B, D] -> [B, 1, D] -> [B, D]
                u = attend(u.unsqueeze(1)).squeeze(1)
            if self.input_feeding:
                attentional = u
            outputs.append(u)
        # T x [B, D] -> [B, T, D]
        return self.dropout(torch.stack(outputs, dim=1)), RecurrentState(tuple(layers), attentional, state.source)


def build_recurrent(config: RecurrentConfig) -> Recurrent:
    """Build and initialise the model that `config` describes."""
    D = config.d_model
    source_tokens, target_tokens, output = vocabulary_matrices(
        config.source_vocabulary, config.target_vocabulary, config.d_model, config.tied_embeddings
    )

    directions, parts = 2 if config.bidirectional else 1, 2 if config.cell == "lstm" else 1
    encoder = Encoder([_encoder_layer(config, D // directions) for _ in range(config.encoder_layers)], config.dropout)
    score = _attention_score(config)
    feeding = config.input_feeding
    decoder = Decoder(
        [RecurrentLayer(config.cell, 2 * D if feeding and i == 0 else D, D) for i in range(config.decoder_layers)],
        [nn.Linear(D, parts * D) for _ in range(config.decoder_layers)],
        None if score is None else RecurrentAttention(score, D),
        input_feeding=feeding,
        dropout=config.dropout,
    )
    model = Recurrent(
        Embedding(source_tokens, None, config.dropout),
        Embedding(target_tokens, None, config.dropout),
        encoder,
        decoder,
        output,
    )
    initialise_recurrent(model)
    return model


def initialise_recurrent(model: Recurrent) -> None:
    """Initialise the layers by `recurrent_gates`, and all other matrices as in the Transformer."""
    rules: Rules = {
        nn.LSTM: recurrent_gates,
        nn.GRU: recurrent_gates,
        nn.Linear: xavier,
        nn.Embedding: unit_after_scaling,
    }
    initialise(model, rules, output_std=model.output.in_features**-0.5)


def _encoder_layer(config: RecurrentConfig, width: int) -> RecurrentEncoderLayer:
    return RecurrentEncoderLayer(
        RecurrentLayer(config.cell, config.d_model, width),
        RecurrentLayer(config.cell, config.d_model, width) if config.bidirectional else None,
    )


def _attention_score(config: RecurrentConfig) -> AttentionScore | None:
    match config.attention:
        case "none":
            return None
        case "dot":
            return DotScore()
        case "general":
            return GeneralScore(config.d_model)
        case "additive":
            return AdditiveScore(config.d_model)
