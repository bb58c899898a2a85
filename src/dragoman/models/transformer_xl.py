"""Transformer-XL (Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length Context", 2019).

The file contains, in this order: the state, the model, the builder and the initialisation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.key_value_cache import KeyValueCache
from dragoman.layers.positions import SinusoidalDistances
from dragoman.layers.relative_attention import RelativeAttention, ScoreBiases
from dragoman.layers.segment_layer import SegmentLayer, last_positions
from dragoman.models.config import attention_factor
from dragoman.models.config.layers import LayerConfig
from dragoman.models.config.transformer_xl import TransformerXLConfig
from dragoman.models.embedding import Embedding
from dragoman.models.language_model import LanguageModel
from dragoman.models.layer_builders import build_feed_forward, build_norm, build_residual
from dragoman.models.seq2seq import AttentionModules, Decoded
from dragoman.models.state import DecoderState
from dragoman.packing import dense

# Standard deviation of the initial weights, that of the paper's code.
INITIAL_STD = 0.02
# Without gradients, as many segments as fit into this number of positions are computed at once.
AT_ONCE = 256


@dataclass(frozen=True)
class TransformerXLState(DecoderState):
    """State of a Transformer-XL after the tokens that it has read.

    Attributes:
        layers: memory of each layer, at most the last `memory` positions.
        encodings: [H, memory + 1, K] of each layer, the encodings of the distances memory, ..., 0.
        position: number of tokens that have been read.
    """

    layers: tuple[KeyValueCache, ...]
    encodings: tuple[Float[Tensor, "H R K"], ...]
    position: int

    @property
    def memory(self) -> int:
        """Largest number of positions in memory."""
        return self.encodings[0].shape[1] - 1

    def reorder(self, rows: Int[Tensor, " N"]) -> "TransformerXLState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return replace(self, layers=tuple(layer.reorder(rows) for layer in self.layers))


class TransformerXL(LanguageModel):
    """Embeddings, a stack of layers with memory, and the output projection.

    Training reads a window in segments. A position attends to its segment up to itself and to the memory: the last M
    positions before the segment, without gradient. Thus information flows over up to layers · M tokens, although
    gradients stay within a segment. A state attends to the same number of positions from every position; see `start`.

    Args:
        embedding: embedding of tokens, without positions.
        layers: the layers.
        final_norm: norm after the last layer; None with post-norm, whose layers end with a norm.
        output: projection onto the vocabulary, without bias.
        segment: number of tokens of a segment in training.
        memory: M, number of positions that are kept from segment to segment in training.
    """

    layers: Sequence[SegmentLayer]

    def __init__(
        self,
        embedding: Embedding,
        layers: list[SegmentLayer],
        final_norm: nn.Module | None,
        output: nn.Linear,
        *,
        segment: int,
        memory: int,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm = final_norm
        self.output = output
        self.segment = segment
        self.memory = memory

    @property
    def max_context(self) -> int | None:
        """None: see `LanguageModel.max_context`."""
        return None

    @property
    def carries_state(self) -> bool:
        """True: see `LanguageModel.carries_state`."""
        return True

    def forward(self, tokens: Int[Tensor, "B T"], documents: Int[Tensor, "B T"] | None = None) -> Decoded:
        """See `LanguageModel.forward`; the memory is empty at the start of a window.

        Without gradients, which would have to stop between segments, several segments are computed at once. The states
        are the same.
        """
        layout = dense(tokens)
        segments = 1 if torch.is_grad_enabled() else max(1, AT_ONCE // self.segment)
        memories: list[Tensor | None] = [None] * len(self.layers)
        outputs = []
        for start in range(0, tokens.shape[1], segments * self.segment):
            end = min(start + segments * self.segment, tokens.shape[1])
            mask = self._mask(max(start - self.memory, 0), start, end, tokens.device, documents)
            # [B, L] -> [B, L, D]
            x = self.embedding(tokens[:, start:end])
            for i, layer in enumerate(self.layers):
                x, context = layer(x, memories[i], mask)
                # [B, S, D] -> [B, M, D]
                memories[i] = context[:, max(context.shape[1] - self.memory, 0) :]
            outputs.append(x)
        # n x [B, L, D] -> [B, T, D] -> [B*T, D]
        rows = layout.rows(self._normalised(torch.cat(outputs, dim=1)))
        return Decoded(rows, layout, rows.new_zeros(()))

    def start(self, rows: int, memory: int | None = None) -> TransformerXLState:
        """Return the state before the first token of `rows` texts.

        Args:
            rows: B, number of texts.
            memory: number of positions before it that each position attends to. It may be larger than in training. None
                for the largest number that occurs in training, M + segment - 1; then reading equals `forward` for texts
                of at most M + segment tokens.
        """
        span = (self.memory + self.segment - 1 if memory is None else memory) + 1
        empty = self.embedding.tokens.weight.new_zeros(rows, 0, self.output.in_features)
        return TransformerXLState(
            tuple(layer.start(empty) for layer in self.layers),
            tuple(layer.self_attention.encodings(span) for layer in self.layers),
            position=0,
        )

    def read(
        self, tokens: Int[Tensor, "B T"], state: DecoderState
    ) -> tuple[Float[Tensor, "B T D"], TransformerXLState]:
        """See `LanguageModel.read`; many tokens are read in pieces, which gives the same states."""
        assert isinstance(state, TransformerXLState)
        outputs, caches = [], list(state.layers)
        for piece in tokens.split(self.segment, dim=1):
            length = piece.shape[1]
            mask = last_positions(length, caches[0].key.shape[2] + length, state.memory + 1, piece.device)
            # [B, L] -> [B, L, D]
            x = self.embedding(piece)
            for i, (layer, encodings) in enumerate(zip(self.layers, state.encodings, strict=True)):
                x, caches[i] = layer.read(x, caches[i], encodings, mask)
            outputs.append(self._normalised(x))
        # n x [B, L, D] -> [B, T, D]
        states = torch.cat(outputs, dim=1)
        return states, TransformerXLState(tuple(caches), state.encodings, state.position + tokens.shape[1])

    def attentions(self) -> AttentionModules:
        """See `LanguageModel.attentions`."""
        return AttentionModules(decoder_self=tuple(layer.self_attention.core for layer in self.layers))

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `LanguageModel.layers_to_compile`."""
        return self.layers

    def _mask(
        self, first: int, start: int, end: int, device: torch.device, documents: Int[Tensor, "B T"] | None
    ) -> AttentionMask:
        """Return the mask of the positions from `start` to `end` over the positions from `first` to `end`."""
        # [S] and [L, 1]
        key = torch.arange(first, end, device=device)
        query = torch.arange(start, end, device=device).unsqueeze(1)
        earliest = query // self.segment * self.segment - self.memory
        # [L, S] -> [1, L, S]
        allowed = ((key <= query) & (key >= earliest)).unsqueeze(0)
        if documents is not None:
            # [1, L, S] & [B, L, S] -> [B, L, S]
            allowed = allowed & (documents[:, start:end].unsqueeze(2) == documents[:, first:end].unsqueeze(1))
        return AttentionMask(allowed=allowed)

    def _normalised(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return x if self.final_norm is None else self.final_norm(x)


def build_transformer_xl(config: TransformerXLConfig) -> TransformerXL:
    """Build and initialise the model that `config` describes."""
    layer_config = config.layer_config()
    tokens = nn.Embedding(config.vocabulary, config.d_model)
    output = nn.Linear(config.d_model, config.vocabulary, bias=False)
    if config.tied_embeddings:
        output.weight = tokens.weight
    distances = SinusoidalDistances(config.d_model, config.position_base)
    shared = ScoreBiases(config.heads, layer_config.key_width)
    model = TransformerXL(
        Embedding(tokens, None, config.dropout, scaled=False),
        [
            _layer(
                layer_config,
                distances,
                shared if config.score_biases == "shared" else ScoreBiases(config.heads, layer_config.key_width),
            )
            for _ in range(config.layers)
        ],
        build_norm(layer_config) if config.norm_placement == "pre" else None,
        output,
        segment=config.segment,
        memory=config.memory,
    )
    _initialise(model)
    return model


def _layer(config: LayerConfig, distances: SinusoidalDistances, biases: ScoreBiases) -> SegmentLayer:
    attention = RelativeAttention(
        config.d_model,
        config.heads,
        distances,
        biases,
        d_k=config.d_k,
        d_v=config.d_v,
        scale=attention_factor(config.attention_scale),
        dropout=config.attention_dropout,
    )
    return SegmentLayer(attention, build_feed_forward(config), build_residual(config), build_residual(config))


def _initialise(model: TransformerXL) -> None:
    """Initialise as the paper's code: weights, u and v are normal with standard deviation 0.02, and biases are zero."""
    for module in model.modules():
        match module:
            case nn.Linear():
                nn.init.normal_(module.weight, std=INITIAL_STD)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            case nn.Embedding():
                nn.init.normal_(module.weight, std=INITIAL_STD)
            case ScoreBiases():
                nn.init.normal_(module.content, std=INITIAL_STD)
                nn.init.normal_(module.position, std=INITIAL_STD)
