"""The settings and presets of the Universal Transformer."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config import AttentionScale, TiedEmbeddings
from dragoman.models.config.checks import (
    POSITION_BASE,
    check_attention_scale,
    check_heads,
    check_position_base,
    check_probabilities,
    check_random_positions,
    check_sizes,
    check_tied_embeddings,
)
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.shapes import TensorShape, linear, vocabulary, within


@dataclass(frozen=True, kw_only=True)
class UniversalConfig:
    """Settings of the Universal Transformer (Dehghani et al. 2018): one encoder and one decoder block, each repeated.

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        encoder_steps: number of applications of the encoder block; with adaptive halting, the maximum.
        decoder_steps: number of applications of the decoder block; with adaptive halting, the maximum.
        halting: "fixed", or "adaptive": each position halts independently (Graves 2016).
        halting_threshold: ε; a position halts when the sum of its halting probabilities reaches 1 - ε.
        ponder_weight: τ, the cost in nats of one step of one position, which is added to the loss.
        d_model: width of embeddings and layers.
        heads: number of heads; divides d_model, unless both d_k and d_v are set.
        d_ff: width of the hidden layer of the feed-forward network.
        d_k: width of a head's queries and keys; None for d_model / heads.
        d_v: width of a head's values; None for d_model / heads.
        attention_scale: factor of the attention scores QKᵀ: "sqrt" for 1/√d_k as in the paper, "none" for 1, or a
            number.
        dropout: probability of dropping an element of sub-layer outputs and embeddings.
        norm_placement: "post" as in the paper, or "pre".
        norm: "layer" or "rms".
        activation: "relu", "gelu", or gated: "geglu", "swiglu".
        position_base: base of the wavelengths of the embeddings of positions and steps.
        random_positions: in training, a batch starts at a random position below this, so that training covers positions
            beyond the longest sentence of the corpus. 0 disables it.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".
    """

    source_vocabulary: int
    target_vocabulary: int
    encoder_steps: int = 6
    decoder_steps: int = 6
    halting: Literal["fixed", "adaptive"] = "fixed"
    halting_threshold: float = 0.01
    ponder_weight: float = 0.01
    d_model: int = 512
    heads: int = 8
    d_ff: int = 2048
    d_k: int | None = None
    d_v: int | None = None
    attention_scale: AttentionScale = "sqrt"
    dropout: float = 0.1
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "geglu", "swiglu"] = "relu"
    position_base: float = POSITION_BASE
    random_positions: int = 0
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(
            self,
            ("source_vocabulary", "target_vocabulary", "encoder_steps", "decoder_steps", "d_model", "heads", "d_ff"),
        )
        check_probabilities(self, ("dropout",))
        check_heads(self)
        check_attention_scale(self.attention_scale)
        check_position_base(self.position_base, "sinusoidal")
        if not 0 < self.halting_threshold < 1:
            raise SettingsError(f"halting_threshold must be between 0 and 1, not {self.halting_threshold}")
        if not 0 <= self.ponder_weight < math.inf:
            raise SettingsError(f"ponder_weight must be finite and at least 0, not {self.ponder_weight}")
        check_random_positions(self)
        check_tied_embeddings(self)

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        most = "at most " if self.halting == "adaptive" else ""
        return (
            f"one encoder block {most}{self.encoder_steps} and one decoder block {most}{self.decoder_steps} times, "
            f"d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}"
        )

    def one_layer(self) -> TransformerConfig:
        """Return the settings of a Transformer with one layer, from whose parts this model is built."""
        return TransformerConfig(
            source_vocabulary=self.source_vocabulary,
            target_vocabulary=self.target_vocabulary,
            encoder_layers=1,
            decoder_layers=1,
            d_model=self.d_model,
            heads=self.heads,
            d_ff=self.d_ff,
            d_k=self.d_k,
            d_v=self.d_v,
            attention_scale=self.attention_scale,
            dropout=self.dropout,
            norm_placement=self.norm_placement,
            norm=self.norm,
            activation=self.activation,
            tied_embeddings=self.tied_embeddings,
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        transformer = self.one_layer()
        yield from vocabulary(self.source_vocabulary, self.target_vocabulary, self.d_model, self.tied_embeddings)
        yield from within("encoder.block", transformer.encoder_layer())
        yield from within("decoder.block", transformer.decoder_layer())
        for stack in ("encoder", "decoder"):
            yield from within(f"{stack}.final_norm", transformer.final_norm())
            if self.halting == "adaptive":
                yield from within(f"{stack}.depth.halting", linear(1, self.d_model, bias=True))


# For each preset, the settings that differ from the defaults. A preset has about as many parameters as the preset of
# the Transformer with the same name.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"encoder_steps": 2, "decoder_steps": 2, "d_model": 64, "heads": 4, "d_ff": 256},
    # For a laptop.
    "small": {"encoder_steps": 4, "decoder_steps": 4, "d_model": 384, "heads": 6, "d_ff": 1536},
    # The paper's base model (section 3.5): wider than the Transformer's, because the block is shared by all steps.
    "base": {"d_model": 1024, "heads": 16, "d_ff": 4096},
}
