"""The settings and presets of the encoder-decoder Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.checks import (
    check_heads,
    check_probabilities,
    check_random_positions,
    check_sizes,
    check_tied_embeddings,
)
from dragoman.models.shapes import TensorShape, linear, table, vocabulary, within

# Added to the variance in layer and RMS normalisation, as in the reference implementation (tensor2tensor).
NORM_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Settings of the encoder-decoder Transformer. Defaults are the paper's base model (Vaswani et al. 2017).

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        encoder_layers: N, number of encoder layers.
        decoder_layers: N, number of decoder layers.
        d_model: width of embeddings and layers.
        heads: number of heads; divides d_model. The values of a head have width d_model / heads.
        d_ff: width of the hidden layer of the feed-forward network.
        d_k: width of a head's queries and keys; None for d_model / heads.
        dropout: P_drop, probability of dropping an element of sub-layer outputs and embeddings.
        attention_dropout: probability of dropping an attention weight.
        activation_dropout: probability of dropping an element inside the feed-forward network.
        norm_placement: "post" as in the paper, or "pre".
        norm: "layer", "rms", or "batch" (over tokens).
        activation: "relu", "gelu", or gated: "geglu", "swiglu".
        positions: "sinusoidal"; "learned" or "one-hot" (both for at most max_positions); "rotary"; "relative" (by
            distance); or "none".
        max_positions: number of learned or one-hot positions, which is the length of the longest sequence.
        max_distance: largest distance with its own vector; larger distances share its vector. Relative positions only.
        random_positions: in training, a batch starts at a random position below this, so that training covers positions
            beyond the longest sentence of the corpus. 0 disables it. Sinusoidal positions only.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".
        attention_bias: True if the attention projections have biases.

    Example:
        >>> config = TransformerConfig(source_vocabulary=8000, target_vocabulary=8000, d_model=256, heads=4, d_ff=1024)
        >>> config.key_width
        64
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_layers: int = 6
    decoder_layers: int = 6
    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    d_k: int | None = None
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms", "batch"] = "layer"
    activation: Literal["relu", "gelu", "geglu", "swiglu"] = "relu"
    positions: Literal["sinusoidal", "learned", "one-hot", "rotary", "relative", "none"] = "sinusoidal"
    max_positions: int = 1024
    max_distance: int = 16
    random_positions: int = 0
    tied_embeddings: TiedEmbeddings = "three-way"
    attention_bias: bool = False

    def __post_init__(self) -> None:
        check_sizes(
            self,
            (
                "source_vocabulary",
                "target_vocabulary",
                "encoder_layers",
                "decoder_layers",
                "d_model",
                "heads",
                "d_ff",
                "max_positions",
                "max_distance",
            ),
        )
        if self.d_k is not None:
            check_sizes(self, ("d_k",))
        check_probabilities(self, ("dropout", "attention_dropout", "activation_dropout"))
        check_heads(self)
        if self.positions == "rotary" and self.key_width % 2:
            raise SettingsError(f"rotary positions need an even d_k (default: d_model / heads), not {self.key_width}")
        check_random_positions(self)
        if self.random_positions and self.positions != "sinusoidal":
            raise SettingsError(f"random_positions needs sinusoidal positions, but positions = {self.positions!r}")
        check_tied_embeddings(self)

    @property
    def key_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        d_k = "" if self.d_k is None else f"d_k {self.d_k}, "
        return (
            f"{self.encoder_layers} encoder and {self.decoder_layers} decoder layers, d_model {self.d_model}, "
            f"{self.heads} heads, {d_k}d_ff {self.d_ff}"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        for side in ("source_embedding", "target_embedding"):
            yield from within(f"{side}.positions", self._positions())
        for i in range(self.encoder_layers):
            yield from within(f"encoder.layers.{i}", self.encoder_layer())
        for i in range(self.decoder_layers):
            yield from within(f"decoder.layers.{i}", self.decoder_layer())
        for stack in ("encoder", "decoder"):
            yield from within(f"{stack}.final_norm", self.final_norm())

    def encoder_layer(self) -> Iterator[TensorShape]:
        """Yield the tensors of one encoder layer."""
        yield from within("self_attention", self._attention())
        if self.positions == "relative":
            yield from within("self_attention.relative.embedding", table(2 * self.max_distance + 1, self.key_width))
        yield from within("feed_forward", self._feed_forward())
        for residual in ("attention_residual", "feed_forward_residual"):
            yield from within(f"{residual}.norm", self._norm())

    def decoder_layer(self) -> Iterator[TensorShape]:
        """Yield the tensors of one decoder layer."""
        yield from within("self_attention", self._attention())
        if self.positions == "relative":
            # A target position does not attend to later positions, which therefore have no vectors.
            yield from within("self_attention.relative.embedding", table(self.max_distance + 1, self.key_width))
        yield from within("memory_attention", self._attention())
        yield from within("feed_forward", self._feed_forward())
        for residual in ("self_residual", "memory_residual", "feed_forward_residual"):
            yield from within(f"{residual}.norm", self._norm())

    def final_norm(self) -> Iterator[TensorShape]:
        """Yield the tensors of the norm after the last layer."""
        if self.norm_placement == "pre":
            yield from self._norm()

    def _positions(self) -> Iterator[TensorShape]:
        match self.positions:
            case "learned":
                yield from within("embedding", table(self.max_positions, self.d_model))
            case "one-hot":
                yield from within("words", linear(self.d_model, self.d_model, bias=False))
                yield from within("columns.embedding", table(self.max_positions, self.d_model))
            case "sinusoidal" | "rotary" | "relative" | "none":
                pass

    def _attention(self) -> Iterator[TensorShape]:
        keys = self.heads * self.key_width
        for name, width in (("query", keys), ("key", keys), ("value", self.d_model), ("output", self.d_model)):
            yield from within(name, linear(width, self.d_model, bias=self.attention_bias))

    def _feed_forward(self) -> Iterator[TensorShape]:
        gated = self.activation in ("geglu", "swiglu")
        if gated:
            yield from within("gate", linear(self.d_ff, self.d_model, bias=False))
        yield from within("inner", linear(self.d_ff, self.d_model, bias=not gated))
        yield from within("outer", linear(self.d_model, self.d_ff, bias=not gated))

    def _norm(self) -> Iterator[TensorShape]:
        yield TensorShape("weight", (self.d_model,))
        if self.norm != "rms":
            yield TensorShape("bias", (self.d_model,))
        if self.norm == "batch":
            yield TensorShape("running_mean", (self.d_model,))
            yield TensorShape("running_var", (self.d_model,))
            yield TensorShape("num_batches_tracked", (), integer=True)


# For each preset, the settings that differ from the defaults, which are the paper's base model.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments: trains in seconds.
    "tiny": {"encoder_layers": 2, "decoder_layers": 2, "d_model": 64, "heads": 4, "d_ff": 256},
    # For a laptop: trains in minutes on two cores.
    "small": {"encoder_layers": 3, "decoder_layers": 3, "d_model": 256, "heads": 4, "d_ff": 1024},
    # The paper's base model: 65 M parameters at 37,000 joint subwords (table 3).
    "base": {},
    # The paper's big model: 213 M parameters at 37,000 joint subwords (table 3).
    "big": {"d_model": 1024, "heads": 16, "d_ff": 4096, "dropout": 0.3},
    # As base, with later improvements. d_ff is two thirds of base's (rounded up), so that the three matrices of the
    # gated feed-forward network have about as many parameters as the two of base.
    "modern": {"d_ff": 1376, "norm_placement": "pre", "norm": "rms", "activation": "swiglu", "positions": "rotary"},
    # As small, with a deep encoder and one decoder layer, because the decoder works token by token (Kasai et al., "Deep
    # encoder, shallow decoder", 2020). Intended for training on the translations of a larger model (`dragoman
    # distill`). Pre-norm, because twelve post-norm layers hardly train.
    "fast": {
        "encoder_layers": 12,
        "decoder_layers": 1,
        "d_model": 256,
        "heads": 4,
        "d_ff": 1024,
        "norm_placement": "pre",
    },
}
