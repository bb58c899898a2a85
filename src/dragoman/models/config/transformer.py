"""The settings of the encoder-decoder Transformer."""

from dataclasses import dataclass
from typing import Literal

from dragoman.models.config.checks import check_at_least_one, check_probabilities, check_tied_embeddings

# What layer and RMS norms add to the variance: the reference implementation's (tensor2tensor).
NORM_EPSILON = 1e-6


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The encoder-decoder Transformer. Defaults are the paper's base model (Vaswani et al. 2017).

    source_vocabulary, target_vocabulary  sizes in subwords
    encoder_layers, decoder_layers        N
    d_model, heads, d_ff                  widths; heads divides d_model, and a head's values are d_model / heads wide
    d_k                                   width of a head's queries and keys; None: d_model / heads
    dropout                               P_drop, on sub-layer outputs and embeddings
    attention_dropout, activation_dropout on attention weights and inside the feed-forward network
    norm_placement                        "post" as in the paper, or "pre"
    norm                                  "layer", "rms", or "batch" (over tokens)
    activation                            "relu", "gelu", or gated: "geglu", "swiglu"
    positions                             "sinusoidal"; "learned" or "one-hot" (both up to max_positions); "rotary";
                                          "relative" (by distance, beyond max_distance all alike); or "none"
    random_positions                      in training, a batch starts at a random position below this, so that
                                          positions beyond those of the corpus are known; 0 is off; sinusoidal only
    tied_embeddings                       "three-way" (source, target, output; one joint vocabulary),
                                          "two-way" (target and output), or "none"
    attention_bias                        biases in the attention projections
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
    tied_embeddings: Literal["three-way", "two-way", "none"] = "three-way"
    attention_bias: bool = False

    def __post_init__(self) -> None:
        check_at_least_one(
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
            check_at_least_one(self, ("d_k",))
        check_probabilities(self, ("dropout", "attention_dropout", "activation_dropout"))
        if self.d_model % self.heads:
            raise ValueError(f"heads must divide d_model, but {self.heads} does not divide {self.d_model}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, not {self.d_model}")
        if self.positions == "rotary" and self.key_width % 2:
            raise ValueError(f"rotary positions need an even d_k, or d_model / heads without one, not {self.key_width}")
        if self.random_positions < 0:
            raise ValueError(f"random_positions must be 0 (off) or more, not {self.random_positions}")
        if self.random_positions and self.positions != "sinusoidal":
            raise ValueError(f"random_positions needs sinusoidal positions, but they are {self.positions!r}")
        check_tied_embeddings(self)

    @property
    def key_width(self) -> int:
        """The width of a head's queries and keys."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    def shape(self) -> str:
        """The sizes in a few words."""
        d_k = "" if self.d_k is None else f"d_k {self.d_k}, "
        return (
            f"{self.encoder_layers} encoder and {self.decoder_layers} decoder layers, d_model {self.d_model}, "
            f"{self.heads} heads, {d_k}d_ff {self.d_ff}"
        )
