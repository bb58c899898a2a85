"""The settings of Transformer layers, which several architectures share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError
from dragoman.models.config import AttentionScale
from dragoman.models.config.checks import (
    POSITION_BASE,
    check_attention_scale,
    check_heads,
    check_norm_epsilon,
    check_position_base,
    check_probabilities,
    check_sizes,
)
from dragoman.models.shapes import TensorShape, linear, table, within

# Added to the variance in layer and RMS normalisation, as in the reference implementation (tensor2tensor).
NORM_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class LayerConfig:
    """Settings of Transformer layers. Defaults are the paper's base model (Vaswani et al. 2017).

    Attributes:
        d_model: width of embeddings and layers.
        heads: number of heads; divides d_model, unless both d_k and d_v are set.
        d_ff: width of the hidden layer of the feed-forward network.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        attention_scale: factor of the attention scores QKᵀ: "sqrt" for 1/√d_k as in the paper, "none" for 1, or a
            number.
        dropout: P_drop, probability of dropping an element of sub-layer outputs and embeddings.
        attention_dropout: probability of dropping an attention weight.
        activation_dropout: probability of dropping an element inside the feed-forward network.
        norm_placement: "post" as in the paper, or "pre".
        norm: "layer", "rms", or "batch" (over tokens).
        norm_epsilon: ε, added to the variance in layer and RMS normalisation.
        activation: "relu", "gelu", "gelu_tanh" (the approximation of GELU by tanh), or gated: "geglu", "swiglu".
        positions: "sinusoidal"; "learned" or "one-hot" (both for at most max_positions); "rotary"; "relative" (by
            distance); or "none".
        position_base: base of the wavelengths of sinusoidal and rotary positions.
        max_positions: number of learned or one-hot positions, which is the length of the longest sequence.
        max_distance: largest distance with its own vector; larger distances share its vector. Relative positions only.
        attention_bias: True if the attention projections have biases.
    """

    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    d_k: int | None = None
    d_v: int | None = None
    attention_scale: AttentionScale = "sqrt"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms", "batch"] = "layer"
    norm_epsilon: float = NORM_EPSILON
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "relu"
    positions: Literal["sinusoidal", "learned", "one-hot", "rotary", "relative", "none"] = "sinusoidal"
    position_base: float = POSITION_BASE
    max_positions: int = 1024
    max_distance: int = 16
    attention_bias: bool = False

    def __post_init__(self) -> None:
        check_sizes(self, ("d_model", "heads", "d_ff", "max_positions", "max_distance"))
        check_probabilities(self, ("dropout", "attention_dropout", "activation_dropout"))
        check_norm_epsilon(self)
        check_heads(self)
        check_attention_scale(self.attention_scale)
        check_position_base(self.position_base, self.positions)
        if self.positions == "rotary" and self.key_width % 2:
            raise SettingsError(f"rotary positions need an even d_k (default: d_model / heads), not {self.key_width}")

    @property
    def key_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    @property
    def value_width(self) -> int:
        """The width of a head's values."""
        return self.d_model // self.heads if self.d_v is None else self.d_v

    def position_tensors(self) -> Iterator[TensorShape]:
        """Yield the tensors of the positions that are added to the embeddings."""
        match self.positions:
            case "learned":
                yield from within("embedding", table(self.max_positions, self.d_model))
            case "one-hot":
                yield from within("words", linear(self.d_model, self.d_model, bias=False))
                yield from within("columns.embedding", table(self.max_positions, self.d_model))
            case "sinusoidal" | "rotary" | "relative" | "none":
                pass

    def self_attention_tensors(self, *, future: bool) -> Iterator[TensorShape]:
        """Yield the tensors of a self-attention; `future`: True if queries attend to keys after them."""
        yield from self.attention_tensors()
        if self.positions == "relative":
            # A query that does not attend to later keys has no vectors for their distances.
            distances = (2 if future else 1) * self.max_distance + 1
            yield from within("relative.embedding", table(distances, self.key_width))

    def attention_tensors(self) -> Iterator[TensorShape]:
        """Yield the tensors of an attention."""
        keys, values = self.heads * self.key_width, self.heads * self.value_width
        for name, width in (("query", keys), ("key", keys), ("value", values)):
            yield from within(name, linear(width, self.d_model, bias=self.attention_bias))
        yield from within("output", linear(self.d_model, values, bias=self.attention_bias))

    def feed_forward_tensors(self) -> Iterator[TensorShape]:
        """Yield the tensors of a feed-forward network."""
        gated = self.activation in ("geglu", "swiglu")
        if gated:
            yield from within("gate", linear(self.d_ff, self.d_model, bias=False))
        yield from within("inner", linear(self.d_ff, self.d_model, bias=not gated))
        yield from within("outer", linear(self.d_model, self.d_ff, bias=not gated))

    def norm_tensors(self) -> Iterator[TensorShape]:
        """Yield the tensors of a norm."""
        yield TensorShape("weight", (self.d_model,))
        if self.norm != "rms":
            yield TensorShape("bias", (self.d_model,))
        if self.norm == "batch":
            yield TensorShape("running_mean", (self.d_model,))
            yield TensorShape("running_var", (self.d_model,))
            yield TensorShape("num_batches_tracked", (), integer=True)

    def layer_tensors(self, *, future: bool) -> Iterator[TensorShape]:
        """Yield the tensors of a layer of self-attention and feed-forward network; see `self_attention_tensors`."""
        yield from within("self_attention", self.self_attention_tensors(future=future))
        yield from within("feed_forward", self.feed_forward_tensors())
        for residual in ("attention_residual", "feed_forward_residual"):
            yield from within(f"{residual}.norm", self.norm_tensors())

    def final_norm(self) -> Iterator[TensorShape]:
        """Yield the tensors of the norm after the last layer."""
        if self.norm_placement == "pre":
            yield from self.norm_tensors()
