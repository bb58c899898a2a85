"""The settings and presets of the encoder that is trained by masking (Devlin et al., "BERT", 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_size, check_sizes
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, linear, table, within


@dataclass(frozen=True, kw_only=True)
class MaskedConfig(LayerConfig):
    """Settings of an encoder of texts, with the heads for its training by masking.

    The settings of the layers are those of `LayerConfig`, with other defaults: pre-norm and rotary positions. The
    preset "bert-base" has those of BERT instead.

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        layers: number of layers.
        context: number of tokens of a window of text in training.
        tied_embeddings: True if the embeddings and the output projection share a matrix.
        segments: number of segments with an embedding of their own, such as the two texts of a pair; 0: none.
        embedding_norm: True to normalise the sum of the embeddings.
        prediction_head: False: a model without the layers that predict masked tokens, which cannot be trained by
            masking.
        pooler: True for a layer with tanh that maps the state of the first token to a vector of the text.
        next_sentence: True for a head that predicts from this vector whether the second segment follows the first.

    Example:
        >>> MaskedConfig(vocabulary=8000, layers=4, d_model=128, heads=4, d_ff=512).context
        128
    """

    vocabulary: int
    layers: int = 6
    context: int = 128
    tied_embeddings: bool = True
    segments: int = 0
    embedding_norm: bool = False
    prediction_head: bool = True
    pooler: bool = False
    next_sentence: bool = False
    d_model: int = 384
    heads: int = 6
    d_ff: int = 1536
    norm_placement: Literal["post", "pre"] = "pre"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "gelu"
    positions: Literal["sinusoidal", "learned", "one-hot", "rotary", "relative", "none"] = "rotary"

    def __post_init__(self) -> None:
        check_sizes(self, ("vocabulary", "layers", "context"))
        check_size("segments", self.segments, least=0)
        super().__post_init__()
        if self.max_context is not None and self.context > self.max_context:
            raise SettingsError(
                f"context is {self.context}, but there are only max_positions = {self.max_positions} positions"
            )
        if self.norm == "batch":
            raise SettingsError("norm = 'batch' is not available in an encoder of texts: use 'layer' or 'rms'")
        if self.next_sentence and not (self.pooler and self.segments >= 2):
            raise SettingsError("next_sentence needs pooler = true and segments = 2")

    @property
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions limit it."""
        return self.max_positions if self.positions in ("learned", "one-hot") else None

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return f"{self.layers} layers, d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}"

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from within("embedding.tokens", table(self.vocabulary, self.d_model))
        yield from within("embedding.positions", self.position_tensors())
        if self.segments:
            yield from within("embedding.segments", table(self.segments, self.d_model))
        if self.embedding_norm:
            yield from within("embedding.norm", self.norm_tensors())
        for i in range(self.layers):
            yield from within(f"encoder.layers.{i}", self.layer_tensors(future=True))
        yield from within("encoder.final_norm", self.final_norm())
        if self.prediction_head:
            yield from within("head.dense", linear(self.d_model, self.d_model, bias=True))
            yield from within("head.norm", self.norm_tensors())
            yield TensorShape("output.bias", (self.vocabulary,))
            if not self.tied_embeddings:
                yield TensorShape("output.weight", (self.vocabulary, self.d_model))
        if self.pooler:
            yield from within("pooler", linear(self.d_model, self.d_model, bias=True))
        if self.next_sentence:
            yield from within("next_sentence", linear(2, self.d_model, bias=True))


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments: trains in seconds.
    "tiny": {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 256, "context": 64},
    # For a laptop: trains in minutes on two cores.
    "mini": {"layers": 4, "d_model": 256, "heads": 4, "d_ff": 1024},
    "small": {},
    # The sizes of BERT-base (Devlin et al., 2019).
    "base": {"layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072, "context": 512},
    # BERT-base with all its choices; 110 M parameters at 30,522 subwords.
    "bert-base": {
        "layers": 12,
        "d_model": 768,
        "heads": 12,
        "d_ff": 3072,
        "context": 512,
        "attention_dropout": 0.1,
        "norm_placement": "post",
        "norm_epsilon": 1e-12,
        "positions": "learned",
        "max_positions": 512,
        "attention_bias": True,
        "segments": 2,
        "embedding_norm": True,
        "pooler": True,
        "next_sentence": True,
    },
}
