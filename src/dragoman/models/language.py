"""The decoder-only Transformer (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019).

It is the decoder of "Attention Is All You Need" without the attention to a source (Liu et al., 2018, section 4.2.2).
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.causal_attention import AttentionCache
from dragoman.layers.causal_layer import CausalLayer
from dragoman.models.config.causal import CausalConfig
from dragoman.models.config.language import LanguageConfig
from dragoman.models.embedding import Embedding
from dragoman.models.initialisation import initialise_normal, unit_after_scaling
from dragoman.models.language_model import LanguageModel
from dragoman.models.layer_builders import (
    build_causal_attention,
    build_feed_forward,
    build_final_norm,
    build_positions,
    build_residual,
)
from dragoman.models.seq2seq import AttentionModules, Decoded
from dragoman.models.state import DecoderState
from dragoman.packing import Layout, dense

# Standard deviation of the initial weights (Radford et al., 2018, section 4.1).
INITIAL_STD = 0.02


@dataclass(frozen=True)
class TransformerTextState(DecoderState):
    """State of a decoder-only Transformer after the tokens that it has read.

    Attributes:
        layers: cache of each layer.
        position: index of the next token, in all texts or [B] in each.
    """

    layers: tuple[AttentionCache, ...]
    position: int | Int[Tensor, " B"]

    def reorder(self, rows: Int[Tensor, " N"]) -> "TransformerTextState":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        position = self.position if isinstance(self.position, int) else self.position[rows]
        return TransformerTextState(tuple(layer.reorder(rows) for layer in self.layers), position)

    def last(self, positions: int) -> "TransformerTextState":
        """Forget all but at most this number of last positions, to which later tokens cannot attend then."""
        return TransformerTextState(tuple(layer.last(positions) for layer in self.layers), self.position)


class TransformerLanguageModel(LanguageModel):
    """Embeddings, a stack of causal layers, and the output projection.

    Args:
        embedding: embedding of tokens and positions.
        layers: the layers.
        final_norm: norm after the last layer; None with post-norm, whose layers end with a norm.
        output: projection onto the vocabulary, without bias.
        max_context: see `LanguageModel.max_context`.
    """

    layers: Sequence[CausalLayer]

    def __init__(
        self,
        embedding: Embedding,
        layers: list[CausalLayer],
        final_norm: nn.Module | None,
        output: nn.Linear,
        max_context: int | None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]
        self.final_norm = final_norm
        self.output = output
        self._max_context = max_context

    @property
    def max_context(self) -> int | None:
        """See `LanguageModel.max_context`."""
        return self._max_context

    def forward(self, tokens: Int[Tensor, "B T"], documents: Int[Tensor, "B T"] | None = None) -> Decoded:
        """See `LanguageModel.forward`."""
        layout = dense(tokens)
        rows = self.read_at_once(tokens, layout, documents)
        return Decoded(rows, layout, rows.new_zeros(()))

    def read_at_once(
        self, tokens: Int[Tensor, "B T"], layout: Layout, documents: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "*BT D"]:
        """Return the states of whole texts as rows in `layout`; padding is at the end of a text."""
        # [B, T] -> [B, T, D] -> [*BT, D]
        rows, mask = layout.rows(self.embedding(tokens)), AttentionMask.past_in_documents(layout, documents)
        for layer in self.layers:
            rows = layer(rows, mask)
        return self._normalised(rows)

    def start(self, rows: int) -> TransformerTextState:
        """See `LanguageModel.start`."""
        empty = self.embedding.tokens.weight.new_zeros(rows, 0, self.output.in_features)
        return TransformerTextState(tuple(layer.start(empty) for layer in self.layers), position=0)

    def read(
        self, tokens: Int[Tensor, "B T"], state: DecoderState
    ) -> tuple[Float[Tensor, "B T D"], TransformerTextState]:
        """See `LanguageModel.read`."""
        return self.read_padded(tokens, state, None)

    def read_padded(
        self, tokens: Int[Tensor, "B T"], state: DecoderState, mask: Bool[Tensor, "B T"] | None
    ) -> tuple[Float[Tensor, "B T D"], TransformerTextState]:
        """Read further tokens of texts that may have different lengths.

        Args:
            tokens: the tokens after those that have been read.
            state: the state before these tokens.
            mask: True for tokens, False for padding, which is at the end; None if there is no padding.

        Returns:
            The states, which are unspecified at padding, and the state of each text after its last token.
        """
        assert isinstance(state, TransformerTextState)
        position = state.position
        # [B, T] -> [B, T, D]
        x = self.embedding(tokens, _positions(tokens, position, mask))
        caches = []
        for layer, cache in zip(self.layers, state.layers, strict=True):
            x, cache = layer.read(x, cache, position, mask)
            caches.append(cache)
        read = tokens.shape[1] if mask is None else mask.sum(dim=1)
        return self._normalised(x), TransformerTextState(tuple(caches), position + read)

    def attentions(self) -> AttentionModules:
        """See `LanguageModel.attentions`."""
        return AttentionModules(decoder_self=tuple(layer.self_attention.core for layer in self.layers))

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `LanguageModel.layers_to_compile`."""
        return self.layers

    def _normalised(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        return x if self.final_norm is None else self.final_norm(x)


def _positions(
    tokens: Int[Tensor, "B T"], position: int | Int[Tensor, " B"], mask: Bool[Tensor, "B T"] | None
) -> int | Int[Tensor, "B T"]:
    """Return the position of each token, or of the first if that determines the others; 0 at padding."""
    if isinstance(position, int):
        if mask is None:
            return position
        position = torch.full((len(tokens),), position, device=tokens.device)
    # [B, 1] + [T] -> [B, T]
    positions = position.unsqueeze(1) + torch.arange(tokens.shape[1], device=tokens.device)
    return positions if mask is None else positions.masked_fill(~mask, 0)


def build_language(config: LanguageConfig) -> TransformerLanguageModel:
    """Build and initialise the model that `config` describes."""
    return build_stack(config, config.vocabulary, tied_embeddings=config.tied_embeddings)


def build_stack(config: CausalConfig, vocabulary: int, *, tied_embeddings: bool) -> TransformerLanguageModel:
    """Build and initialise a language model.

    Args:
        config: settings of the layers.
        vocabulary: number of tokens in the vocabulary.
        tied_embeddings: True if the embeddings and the output projection share a matrix.
    """
    tokens = nn.Embedding(vocabulary, config.d_model)
    output = nn.Linear(config.d_model, vocabulary, bias=False)
    if tied_embeddings:
        output.weight = tokens.weight
    model = TransformerLanguageModel(
        # Sinusoids have amplitude 1: embeddings without the paper's factor √d_model would be lost beside them.
        Embedding(tokens, build_positions(config), config.dropout, scaled=config.positions == "sinusoidal"),
        [
            CausalLayer(
                build_causal_attention(config, config.pattern_of(layer)),
                build_feed_forward(config),
                build_residual(config),
                build_residual(config),
            )
            for layer in range(config.layers)
        ],
        build_final_norm(config),
        output,
        config.max_context,
    )
    _initialise(model)
    return model


def _initialise(model: TransformerLanguageModel) -> None:
    """Initialise as GPT-2 (Radford et al., 2019, section 2.3).

    Weights are normal with standard deviation 0.02, and biases are zero. The matrices whose outputs are added to the
    residual stream are divided by the square root of their number, two in each layer. Embeddings that are multiplied by
    √d_model are initialised to have variance 1 then.
    """
    initialise_normal(model, INITIAL_STD)
    if model.embedding.scale is not None:
        unit_after_scaling(model.embedding.tokens)
    with torch.no_grad():
        for layer in model.layers:
            for matrix in (layer.self_attention.output, layer.feed_forward.outer):
                matrix.weight.div_(math.sqrt(2 * len(model.layers)))
