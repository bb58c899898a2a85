"""The settings and presets of the decoder-only Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config.causal import CausalConfig
from dragoman.models.config.checks import check_sizes
from dragoman.models.shapes import TensorShape, text_vocabulary, within


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(CausalConfig):
    """Settings of the decoder-only Transformer (Radford et al., GPT-2, 2019); rotary positions by default.

    The settings of the layers are those of `CausalConfig`.

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        context: number of tokens of a window of text in training.
        tied_embeddings: True if the embeddings and the output projection share a matrix.

    Example:
        >>> config = LanguageConfig(vocabulary=8000, layers=4, d_model=128, heads=4, d_ff=512)
        >>> config.context
        256
    """

    vocabulary: int
    context: int = 256
    tied_embeddings: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, ("vocabulary", "context"))
        super().__post_init__()
        if self.max_context is not None and self.context > self.max_context:
            raise SettingsError(
                f"context is {self.context}, but there are only max_positions = {self.max_positions} positions"
            )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from text_vocabulary(self.vocabulary, self.d_model, tied=self.tied_embeddings)
        yield from within("embedding.positions", self.position_tensors())
        yield from self.stack_tensors()


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments: trains in seconds.
    "tiny": {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 256, "context": 64},
    # For a laptop: trains in minutes on two cores.
    "nano": {"layers": 4, "d_model": 128, "heads": 4, "d_ff": 512, "context": 64},
    "mini": {},
    # The smallest model of Radford et al. (2019).
    "gpt2-small": {
        "layers": 12,
        "d_model": 768,
        "heads": 12,
        "d_ff": 3072,
        "context": 1024,
        "positions": "learned",
        "attention_bias": True,
    },
}
