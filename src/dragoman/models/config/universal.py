"""The settings of the Universal Transformer."""

import math
from dataclasses import dataclass
from typing import Literal

from dragoman.models.config.checks import check_at_least_one, check_probabilities, check_tied_embeddings


@dataclass(frozen=True, kw_only=True)
class UniversalConfig:
    """The Universal Transformer (Dehghani et al. 2018): one encoder and one decoder block, applied again and again.

    source_vocabulary, target_vocabulary  sizes in subwords
    encoder_steps, decoder_steps          how often a block is applied; with adaptive halting, at most
    halting                               "fixed", or "adaptive": each position halts by itself (Graves 2016)
    halting_threshold                     a position halts when its probabilities of halting reach 1 - this
    ponder_weight                         τ: each step of a position costs so much loss, in nats
    d_model, heads, d_ff                  widths; heads divides d_model
    dropout                               on sub-layer outputs and embeddings
    norm_placement                        "post" as in the paper, or "pre"
    norm                                  "layer" or "rms"
    activation                            "relu", "gelu", or gated: "geglu", "swiglu"
    random_positions                      in training, a batch starts at a random position below this, so that
                                          positions beyond those of the corpus are known; 0 is off
    tied_embeddings                       "three-way" (source, target, output; one joint vocabulary),
                                          "two-way" (target and output), or "none"
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
    dropout: float = 0.1
    norm_placement: Literal["post", "pre"] = "post"
    norm: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "geglu", "swiglu"] = "relu"
    random_positions: int = 0
    tied_embeddings: Literal["three-way", "two-way", "none"] = "three-way"

    def __post_init__(self) -> None:
        check_at_least_one(
            self,
            ("source_vocabulary", "target_vocabulary", "encoder_steps", "decoder_steps", "d_model", "heads", "d_ff"),
        )
        check_probabilities(self, ("dropout",))
        if self.d_model % self.heads:
            raise ValueError(f"heads must divide d_model, but {self.heads} does not divide {self.d_model}")
        if self.d_model % 2:
            raise ValueError(f"d_model must be even, not {self.d_model}")
        if not 0 < self.halting_threshold < 1:
            raise ValueError(f"halting_threshold must be between 0 and 1, not {self.halting_threshold}")
        if not 0 <= self.ponder_weight < math.inf:
            raise ValueError(f"ponder_weight must be 0 or more, and finite, not {self.ponder_weight}")
        if self.random_positions < 0:
            raise ValueError(f"random_positions must be 0 (off) or more, not {self.random_positions}")
        check_tied_embeddings(self)

    def shape(self) -> str:
        """The sizes in a few words."""
        most = "at most " if self.halting == "adaptive" else ""
        return (
            f"one encoder block {most}{self.encoder_steps} and one decoder block {most}{self.decoder_steps} times, "
            f"d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}"
        )
