"""The recurrent encoder-decoder, with and without attention.

Sources: Sutskever et al., "Sequence to Sequence Learning with Neural Networks" (2014); Bahdanau et al., "Neural Machine
Translation by Jointly Learning to Align and Translate" (2015); Luong et al., "Effective Approaches to Attention-based
Neural Machine Translation" (2015), whose decoder this is: a state attends first and is changed by what it saw after,
whatever the score. Read from the top: the model, its encoder and decoder, the builder, the initialisation.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.dropout import Dropout
from dragoman.layers.recurrence import CellState, ReadingLayer, RecurrentLayer
from dragoman.layers.recurrent_attention import (
    AdditiveScore,
    AttendedSource,
    DotScore,
    GeneralScore,
    RecurrentAttention,
    Score,
)
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.embedding import Embedding, vocabulary_matrices
from dragoman.models.encoder_decoder import EncoderDecoder
from dragoman.models.initialisation import Rules, initialise, unit_after_scaling, xavier
from dragoman.models.seq2seq import AttentionModules, Decoded, Memory
from dragoman.models.state import DecoderState
from dragoman.packing import Layout, Padded


@dataclass(frozen=True)
class RecurrentMemory(Memory):
    """The encoded source, and what the decoder starts from.

    final  [B, N, D]  of each of the encoder's N layers, the state in which the sentence ended
    """

    final: Float[Tensor, "B N D"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "RecurrentMemory":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return RecurrentMemory(self.states[rows], Padded(self.mask[rows]), self.final[rows])


@dataclass(frozen=True)
class RecurrentState(DecoderState):
    """What the decoder remembers.

    layers  the state of each layer
    fed     [B, D]  the attentional state of the position before, zeros at first; [B, 0] without input feeding
    source  what attention reads; None without attention
    """

    layers: tuple[CellState, ...]
    fed: Float[Tensor, "B F"]
    source: AttendedSource | None

    def reorder(self, rows: Int[Tensor, " N"]) -> "RecurrentState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        layers = tuple(tuple(part[rows] for part in layer) for layer in self.layers)
        return RecurrentState(layers, self.fed[rows], None if self.source is None else self.source.reorder(rows))


class Recurrent(EncoderDecoder["Encoder", "Decoder", RecurrentMemory]):
    """Embeddings, encoder, decoder, output projection. Its layers read sentences: padding is at their end."""

    def encode_rows(self, source: Int[Tensor, "B S"], layout: Layout, first: int = 0) -> RecurrentMemory:
        """See `EncoderDecoder.encode_rows`; there are no positions to begin at, and the memory is padded."""
        # [B, S] -> [B, S, D] and [B, N, D]
        states, final = self.encoder(self.source_embedding(source), layout.mask)
        return RecurrentMemory(states, Padded(layout.mask), final)

    def decode_rows(self, target: Int[Tensor, "B T"], layout: Layout, memory: Memory, first: int = 0) -> Decoded:
        """See `EncoderDecoder.decode_rows`; there are no positions to begin at."""
        # [B, T] -> [B, T, D] -> [*BT, D]
        rows = layout.rows(self.decoder(self.target_embedding(target), self.start(memory)))
        return Decoded(rows, layout, rows.new_zeros(()))

    def attentions(self) -> AttentionModules:
        """See `Seq2Seq.attentions`."""
        attention = self.decoder.attention
        return AttentionModules(encoder_decoder=() if attention is None else (attention.weights,))

    def start(self, memory: Memory) -> RecurrentState:
        """The state before the first target token."""
        assert isinstance(memory, RecurrentMemory)
        return self.decoder.start(memory)

    def step(self, token: Int[Tensor, " B"], state: DecoderState) -> tuple[Float[Tensor, "B V"], RecurrentState]:
        """Logits of the token that follows `token`; the same numbers as `decode` gives."""
        assert isinstance(state, RecurrentState)
        x, state = self.decoder.unroll(self.embed_token(token), state)
        # [B, 1, D] -> [B, D] -> [B, V]
        return self.project(x.squeeze(1)), state


class Encoder(nn.Module):
    """N layers that read the source, with dropout between them (Zaremba et al. 2014)."""

    layers: Sequence[ReadingLayer]

    def __init__(self, layers: list[ReadingLayer], dropout: float) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "B S D"], real: Bool[Tensor, "B S"]
    ) -> tuple[Float[Tensor, "B S D"], Float[Tensor, "B N D"]]:
        """The states of the last layer, and of every layer the one in which the sentence ended."""
        lengths = real.sum(dim=1)
        final: list[Tensor] = []
        for layer in self.layers:
            x, last = layer(self.dropout(x) if final else x, lengths)
            final.append(last)
        # N x [B, D] -> [B, N, D]
        return x, torch.stack(final, dim=1)


class Decoder(nn.Module):
    """N layers. The last attends to the source; without attention, what they start from is all they see of it.

    Args:
        layers: with input feeding, the first takes [x; ũ], the attentional state ũ of the position before beside the
            token's embedding (Luong et al. 2015, section 3.3).
        bridge: for each layer, the projection that its first state comes from.
        attention: None: the last layer's state is the output.
        input_feeding: needs an attention.
        dropout: between layers and on the output (Zaremba et al. 2014), not on what is fed back.
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
        assert attention is not None or not input_feeding, "there is nothing to feed"
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.bridge = nn.ModuleList(bridge)  # type: ignore[assignment]
        self.attention = attention
        self.input_feeding = input_feeding
        self.dropout = Dropout(dropout)

    def start(self, memory: RecurrentMemory) -> RecurrentState:
        """tanh(W h + b) of the state h in which the source ended (Bahdanau et al. 2015, appendix A.2.2).

        The last layer starts from the encoder's last, the one below it from the one below, and so on; where the encoder
        has fewer layers, the lowest all start from its first.
        Both h and c of an LSTM come from h: one vector a layer is all that passes.
        """
        states = []
        for layer, bridge in enumerate(self.bridge):
            read = max(0, memory.final.shape[1] - len(self.bridge) + layer)
            # [B, D] -> [B, parts*D] -> parts x [B, D]
            states.append(bridge(memory.final[:, read]).tanh().split(memory.final.shape[2], dim=-1))
        fed = memory.final.new_zeros(len(memory.final), memory.final.shape[2] if self.input_feeding else 0)
        source = None
        if self.attention is not None:
            source = self.attention.read(memory.states, AttentionMask.padding(memory.mask))
        return RecurrentState(tuple(states), fed, source)

    def forward(self, x: Float[Tensor, "B T D"], state: RecurrentState) -> Float[Tensor, "B T D"]:
        """All positions, from `state` on; each layer as a whole where nothing is fed back."""
        if self.input_feeding:
            return self.unroll(x, state)[0]
        for i, (layer, first) in enumerate(zip(self.layers, state.layers, strict=True)):
            x = layer(self.dropout(x) if i else x, first)
        if self.attention is not None and state.source is not None:
            x = self.attention.unroll(state.source, positions=x.shape[1])(x)
        return self.dropout(x)

    def unroll(self, x: Float[Tensor, "B T D"], state: RecurrentState) -> tuple[Float[Tensor, "B T D"], RecurrentState]:
        """One position after the other, and the state after the last of them: the same numbers as `forward`."""
        # [B, T, D] -> [T, B, D]; the layers above the first know nothing of their input beforehand: [T, B, 0]
        known = x.transpose(0, 1)
        advances = [layer.unroll(known if i == 0 else known[..., :0]) for i, layer in enumerate(self.layers)]
        attend = None
        if self.attention is not None and state.source is not None:
            attend = self.attention.unroll(state.source, calls=len(known))
        layers, fed, outputs = list(state.layers), state.fed, []
        for _ in range(len(known)):
            u = fed
            for i, advance in enumerate(advances):
                layers[i] = advance(self.dropout(u) if i else u, layers[i])
                u = layers[i][0]
            if attend is not None:
                # [B, D] -> [B, 1, D] -> [B, D]
                u = attend(u.unsqueeze(1)).squeeze(1)
            if self.input_feeding:
                fed = u
            outputs.append(u)
        # T x [B, D] -> [B, T, D]
        return self.dropout(torch.stack(outputs, dim=1)), RecurrentState(tuple(layers), fed, state.source)


def build_recurrent(config: RecurrentConfig) -> Recurrent:
    """Build and initialise the model that `config` describes."""
    D = config.d_model
    source_tokens, target_tokens, output = vocabulary_matrices(
        config.source_vocabulary, config.target_vocabulary, config.d_model, config.tied_embeddings
    )

    directions, parts, fed = 2 if config.bidirectional else 1, 2 if config.cell == "lstm" else 1, config.input_feeding
    encoder = Encoder([_reading_layer(config, D // directions) for _ in range(config.encoder_layers)], config.dropout)
    score = _score(config)
    decoder = Decoder(
        [RecurrentLayer(config.cell, 2 * D if fed and i == 0 else D, D) for i in range(config.decoder_layers)],
        [nn.Linear(D, parts * D) for _ in range(config.decoder_layers)],
        None if score is None else RecurrentAttention(score, D),
        input_feeding=fed,
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
    """Initialise so that gradients neither vanish nor explode over time at first.

    Of each gate, the matrix of the state is orthogonal (Saxe et al. 2014) and that of the input uniform with variance
    2 / (fan-in + fan-out), as are all other matrices. Biases are zero, but those of the forget gates one, so that an
    LSTM remembers (Gers et al. 2000; Jozefowicz et al. 2015). Embeddings and output are the Transformer's: normal with
    standard deviation d_model^-0.5, the embeddings scaled by √d_model.
    """
    rules: Rules = {
        nn.LSTM: _initialise_layer,
        nn.GRU: _initialise_layer,
        nn.Linear: xavier,
        nn.Embedding: unit_after_scaling,
    }
    initialise(model, rules, output_std=model.output.in_features**-0.5)


def _initialise_layer(layer: nn.LSTM | nn.GRU) -> None:
    input_weight, state_weight, input_bias, state_bias = layer.all_weights[0]
    # [gates*D, I] -> gates x [D, I]
    for weight in input_weight.split(layer.hidden_size):
        nn.init.xavier_uniform_(weight)
    for weight in state_weight.split(layer.hidden_size):
        nn.init.orthogonal_(weight)
    nn.init.zeros_(input_bias)
    nn.init.zeros_(state_bias)
    if isinstance(layer, nn.LSTM):
        # torch's order of an LSTM's gates: input, forget, cell, output
        nn.init.ones_(input_bias[layer.hidden_size : 2 * layer.hidden_size])


def _reading_layer(config: RecurrentConfig, width: int) -> ReadingLayer:
    return ReadingLayer(
        RecurrentLayer(config.cell, config.d_model, width),
        RecurrentLayer(config.cell, config.d_model, width) if config.bidirectional else None,
    )


def _score(config: RecurrentConfig) -> Score | None:
    match config.attention:
        case "none":
            return None
        case "dot":
            return DotScore()
        case "general":
            return GeneralScore(config.d_model)
        case "additive":
            return AdditiveScore(config.d_model)
