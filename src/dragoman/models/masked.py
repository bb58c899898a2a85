"""The encoder that is trained by masking (Devlin et al., "BERT", 2019).

It is the encoder of "Attention Is All You Need" with heads that predict masked tokens.
"""

from collections.abc import Iterable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from dragoman.attention import AttentionMask
from dragoman.layers.feed_forward import ACTIVATIONS
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.embedding import Embedding
from dragoman.models.initialisation import initialise_normal, unit_after_scaling
from dragoman.models.layer_builders import build_encoder_layer, build_final_norm, build_norm, build_positions
from dragoman.models.seq2seq import AttentionModules
from dragoman.models.text_encoder import TextEncoder
from dragoman.models.transformer import Encoder
from dragoman.packing import dense, layout_of

# Standard deviation of the initial weights (Devlin et al., reference code).
INITIAL_STD = 0.02


class PredictionHead(nn.Module):
    """Norm(GELU(xW + b)), from which the output projection predicts a masked token (Devlin et al., reference code)."""

    def __init__(self, d_model: int, norm: nn.Module, activation: str) -> None:
        super().__init__()
        self.dense = nn.Linear(d_model, d_model)
        self.norm = norm
        self.activation = ACTIVATIONS[activation]

    def forward(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        """Transform the states of the predicted tokens."""
        return self.norm(self.activation(self.dense(x)))


class MaskedModel(TextEncoder):
    """Embeddings, an encoder stack, and the heads with which it is trained.

    Args:
        embedding: embedding of tokens, positions and segments.
        encoder: the layers.
        head: transforms states before the output projection; None without prediction of masked tokens.
        output: projection onto the vocabulary, with bias; None without prediction of masked tokens.
        pooler: maps the state of the first token; None if the model has none.
        next_sentence: predicts from the pooled state whether the second segment follows the first; None if the model
            has no such head.
    """

    def __init__(
        self,
        embedding: Embedding,
        encoder: Encoder,
        head: PredictionHead | None,
        output: nn.Linear | None,
        pooler: nn.Linear | None,
        next_sentence: nn.Linear | None,
        max_context: int | None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.encoder = encoder
        self.head = head
        self.output = output
        self.pooler = pooler
        self.next_sentence = next_sentence
        self._max_context = max_context

    @property
    def width(self) -> int:
        """See `TextEncoder.width`."""
        return self.embedding.tokens.embedding_dim

    @property
    def max_context(self) -> int | None:
        """See `TextEncoder.max_context`."""
        return self._max_context

    def layers(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> tuple[Float[Tensor, "B T D"], ...]:
        """See `TextEncoder.layers`."""
        layout = layout_of(mask)
        states = self.encoder.states(self.embedding(tokens, segment=segments), AttentionMask.between(layout, layout))
        # [*BT, D] -> [B, T, D]
        return tuple(map(layout.batch, states))

    def encode(
        self, tokens: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"], segments: Int[Tensor, "B T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """See `TextEncoder.encode`."""
        layout = layout_of(mask)
        x = self.embedding(tokens, segment=segments)
        # [B, T, D] -> [*BT, D] -> [B, T, D]
        return layout.batch(self.encoder(x, AttentionMask.between(layout, layout)))

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        segments: Int[Tensor, "B T"] | None = None,
        documents: Int[Tensor, "B T"] | None = None,
    ) -> Float[Tensor, "N D"]:
        """Return the states of windows of text, for training.

        Args:
            tokens: token ids, without padding.
            segments: segment of each token; None for the first segment everywhere.
            documents: index of the document of each token, which attends to that document only; None if a token attends
                to the whole row.

        Returns:
            The states [B*T, D], row after row.
        """
        layout = dense(tokens)
        mask = AttentionMask.in_documents(layout, documents)
        return self.encoder(self.embedding(tokens, segment=segments), mask)

    def predict(self, states: Float[Tensor, "... D"]) -> Float[Tensor, "... V"]:
        """Return logits over the vocabulary for tokens with these states.

        The loss computes the same for a few rows at a time, from `head` and `output`.
        """
        assert self.head is not None, "a model with prediction_head"
        assert self.output is not None
        # [..., D] -> [..., V]
        return self.output(self.head(states))

    def pool(self, first: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Return the vector of each text, from the state of its first token."""
        assert self.pooler is not None, "a model with a pooler"
        return self.pooler(first).tanh()

    def follows(self, first: Float[Tensor, "B D"]) -> Float[Tensor, "B 2"]:
        """Return logits of "the second segment does not follow" and "follows", from the state of the first token."""
        assert self.next_sentence is not None, "a model with next_sentence"
        return self.next_sentence(self.pool(first))

    def attentions(self) -> AttentionModules:
        """See `TextEncoder.attentions`."""
        return AttentionModules(encoder_self=tuple(layer.self_attention.core for layer in self.encoder.layers))

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """See `TextEncoder.layers_to_compile`."""
        return self.encoder.layers


def build_masked(config: MaskedConfig) -> MaskedModel:
    """Build and initialise the model that `config` describes."""
    D, V = config.d_model, config.vocabulary
    tokens = nn.Embedding(V, D)
    output = nn.Linear(D, V) if config.prediction_head else None
    if output is not None and config.tied_embeddings:
        output.weight = tokens.weight
    model = MaskedModel(
        Embedding(
            tokens,
            build_positions(config),
            config.dropout,
            # Sinusoids have amplitude 1: embeddings without the paper's factor √d_model would be lost beside them.
            scaled=config.positions == "sinusoidal",
            segments=nn.Embedding(config.segments, D) if config.segments else None,
            norm=build_norm(config) if config.embedding_norm else None,
        ),
        Encoder(
            [build_encoder_layer(config) for _ in range(config.layers)],
            build_final_norm(config),
        ),
        PredictionHead(D, build_norm(config), config.activation) if config.prediction_head else None,
        output,
        nn.Linear(D, D) if config.pooler else None,
        nn.Linear(D, 2) if config.next_sentence else None,
        config.max_context,
    )
    initialise_normal(model, INITIAL_STD)
    if model.embedding.scale is not None:
        unit_after_scaling(tokens)
    return model
