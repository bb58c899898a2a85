"""The settings and presets of the decoder-only translation model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config import TiedEmbeddings
from dragoman.models.config.causal import CausalConfig
from dragoman.models.config.checks import check_sizes
from dragoman.models.shapes import TensorShape, text_vocabulary, within


@dataclass(frozen=True, kw_only=True)
class DecoderOnlyConfig(CausalConfig):
    """Settings of a model that reads source and target as one text (Liu et al. 2018, section 4.2).

    The settings of the layers are those of `CausalConfig`. One embedding serves source and target, so that they need a
    joint vocabulary.

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords; equal to source_vocabulary.
        tied_embeddings: "three-way" (source, target and output share a matrix), or "none" (the output has its own).
    """

    source_vocabulary: int
    target_vocabulary: int
    tied_embeddings: TiedEmbeddings = "three-way"

    def __post_init__(self) -> None:
        check_sizes(self, ("source_vocabulary", "target_vocabulary"))
        super().__post_init__()
        if self.source_vocabulary != self.target_vocabulary:
            raise SettingsError(
                "a decoder-only model needs one joint vocabulary, but the source vocabulary has "
                f"{self.source_vocabulary} subwords and the target vocabulary {self.target_vocabulary}: "
                "set tokenizer.joint = true"
            )
        if self.tied_embeddings == "two-way":
            raise SettingsError(
                "a decoder-only model has one embedding for source and target, and needs a joint vocabulary: set "
                "tokenizer.joint = true, and tied_embeddings to 'three-way' or 'none'"
            )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        tied = self.tied_embeddings == "three-way"
        yield from within("text", text_vocabulary(self.source_vocabulary, self.d_model, tied=tied))
        yield from within("text.embedding.positions", self.position_tensors())
        yield from within("text", self.stack_tensors())


# For each preset, the settings that differ from the defaults. A preset has about as many parameters as the preset of
# the Transformer with the same name.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"layers": 4, "d_model": 64, "heads": 4, "d_ff": 256},
    # For a laptop.
    "small": {"layers": 7, "d_model": 256, "heads": 4, "d_ff": 1024},
    "base": {"layers": 14, "d_model": 512, "heads": 8, "d_ff": 2048},
    # For inputs of thousands of tokens: time and memory grow almost linearly with their length.
    "long": {
        "layers": 6,
        "d_model": 256,
        "heads": 4,
        "d_ff": 1024,
        "attention_pattern": ["local", "compressed"],
    },
}
