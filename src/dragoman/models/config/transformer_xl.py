"""The settings and presets of Transformer-XL."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config import AttentionScale
from dragoman.models.config.checks import POSITION_BASE, check_position_base, check_size, check_sizes
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, linear, text_vocabulary, within


@dataclass(frozen=True, kw_only=True)
class TransformerXLConfig:
    """Settings of Transformer-XL (Dai et al. 2019).

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        layers: number of layers.
        context: number of tokens of a window of text in training, a multiple of `segment`. The memory is empty at its
            start.
        segment: number of tokens that are read at once in training. Gradients do not flow from segment to segment.
        memory: M, number of positions before a segment whose states are kept in training; 0 for none.
        score_biases: "shared": all layers have the same vectors u and v, as in the paper and in its PyTorch code;
            "layer": each layer has its own (`untie_r` in the paper's TensorFlow code).
        d_model: width of embeddings and layers.
        heads: number of heads; divides d_model, unless both d_k and d_v are set.
        d_ff: width of the hidden layer of the feed-forward network.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        attention_scale: factor of the attention scores: "sqrt" for 1/√d_k as in the paper, "none" for 1, or a number.
        dropout: probability of dropping an element of sub-layer outputs and embeddings.
        attention_dropout: probability of dropping an attention weight.
        activation_dropout: probability of dropping an element inside the feed-forward network.
        norm_placement: "post" as in the paper, or "pre".
        norm: "layer" or "rms".
        norm_epsilon: ε, added to the variance in layer and RMS normalisation.
        activation: "relu" as in the paper, "gelu", "gelu_tanh", or gated: "geglu", "swiglu".
        position_base: base of the wavelengths of the encodings of distances.
        tied_embeddings: True if the embeddings and the output projection share a matrix.

    Example:
        >>> config = TransformerXLConfig(vocabulary=8000, segment=64, memory=64, context=256)
        >>> config.span
        128
    """

    vocabulary: int
    layers: int = 6
    context: int = 512
    segment: int = 128
    memory: int = 128
    score_biases: Literal["shared", "layer"] = "shared"
    d_model: int = 384
    heads: int = 6
    d_ff: int = 1536
    d_k: int | None = None
    d_v: int | None = None
    attention_scale: AttentionScale = "sqrt"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms"] = "layer"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "relu"
    position_base: float = POSITION_BASE
    tied_embeddings: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, ("vocabulary", "layers", "context", "segment"))
        check_size("memory", self.memory, least=0)
        check_position_base(self.position_base, "sinusoidal")
        self.layer_config()
        if self.context % self.segment:
            raise SettingsError(
                f"context must be a multiple of segment, but {self.context} is not a multiple of {self.segment}"
            )

    @property
    def max_context(self) -> int | None:
        """None: a text may have any number of tokens."""
        return None

    @property
    def span(self) -> int:
        """Largest number of positions that a position attends to in training: memory and segment."""
        return self.memory + self.segment

    def layer_config(self) -> LayerConfig:
        """Return the settings of a Transformer layer without positions, from whose parts this model is built."""
        return LayerConfig(
            d_model=self.d_model,
            heads=self.heads,
            d_ff=self.d_ff,
            d_k=self.d_k,
            d_v=self.d_v,
            attention_scale=self.attention_scale,
            dropout=self.dropout,
            attention_dropout=self.attention_dropout,
            activation_dropout=self.activation_dropout,
            norm_placement=self.norm_placement,
            norm=self.norm,
            norm_epsilon=self.norm_epsilon,
            activation=self.activation,
            positions="none",
        )

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return (
            f"{self.layers} layers, d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}, "
            f"segments of {self.segment} tokens, memory {self.memory}"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model; shared biases are stored once, under their name in the first layer."""
        layer = self.layer_config()
        yield from text_vocabulary(self.vocabulary, self.d_model, tied=self.tied_embeddings)
        for i in range(self.layers):
            yield from within(f"layers.{i}", layer.layer_tensors(future=False))
            keys = self.heads * layer.key_width
            yield from within(f"layers.{i}.self_attention.position", linear(keys, self.d_model, bias=False))
            if i == 0 or self.score_biases == "layer":
                for name in ("content", "position"):
                    yield TensorShape(f"layers.{i}.self_attention.biases.{name}", (self.heads, layer.key_width))
        yield from within("final_norm", layer.final_norm())


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments: trains in seconds.
    "tiny": {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 256, "context": 64, "segment": 32, "memory": 32},
    # For a laptop: trains in minutes on two cores.
    "nano": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "context": 128, "segment": 64, "memory": 64},
    "mini": {"context": 256},
    # The paper's 12 layers for characters (enwik8): 41 M parameters.
    "enwik8": {"layers": 12, "d_model": 512, "heads": 8, "d_ff": 2048, "context": 1024, "segment": 512, "memory": 512},
}
