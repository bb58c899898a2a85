"""The settings of each model: frozen, checked, saved as config.json."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The encoder-decoder Transformer. Defaults are the paper's base model (Vaswani et al. 2017).

    source_vocabulary, target_vocabulary  sizes in subwords
    encoder_layers, decoder_layers        N
    d_model, heads, d_ff                  widths; heads divides d_model
    dropout                               P_drop, on sub-layer outputs and embeddings
    attention_dropout, activation_dropout on attention weights and inside the feed-forward network
    norm_placement                        "post" as in the paper, or "pre"
    norm                                  "layer", "rms", or "batch" (over tokens)
    activation                            "relu", "gelu", or gated: "geglu", "swiglu"
    positions                             "sinusoidal", "learned" (up to max_positions), "rotary"
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
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms", "batch"] = "layer"
    activation: Literal["relu", "gelu", "geglu", "swiglu"] = "relu"
    positions: Literal["sinusoidal", "learned", "rotary"] = "sinusoidal"
    max_positions: int = 1024
    tied_embeddings: Literal["three-way", "two-way", "none"] = "three-way"
    attention_bias: bool = False

    def __post_init__(self) -> None:
        for name in (
            "source_vocabulary",
            "target_vocabulary",
            "encoder_layers",
            "decoder_layers",
            "d_model",
            "heads",
            "d_ff",
            "max_positions",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), not {getattr(self, name)}")
        if self.d_model % self.heads:
            raise ValueError(f"heads must divide d_model, but {self.heads} does not divide {self.d_model}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, not {self.d_model}")
        if self.positions == "rotary" and (self.d_model // self.heads) % 2:
            raise ValueError("rotary positions need an even d_model / heads")
        if self.tied_embeddings == "three-way" and self.source_vocabulary != self.target_vocabulary:
            raise ValueError(
                "tied_embeddings = 'three-way' needs one joint vocabulary, but source has "
                f"{self.source_vocabulary} subwords and target {self.target_vocabulary}: "
                "use 'two-way', or a joint tokenizer"
            )
