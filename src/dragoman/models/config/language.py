"""The settings and presets of the decoder-only Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_sizes
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, text_vocabulary, within


@dataclass(frozen=True, kw_only=True)
class LanguageConfig(LayerConfig):
    """Settings of the decoder-only Transformer (Radford et al., GPT-2, 2019); rotary positions by default.

    The settings of the layers are those of `LayerConfig`, with other defaults.

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        layers: number of layers.
        context: number of tokens of a window of text in training.
        tied_embeddings: True if the embeddings and the output projection share a matrix.

    Example:
        >>> config = LanguageConfig(vocabulary=8000, layers=4, d_model=128, heads=4, d_ff=512)
        >>> config.context
        256
    """

    vocabulary: int
    layers: int = 6
    context: int = 256
    tied_embeddings: bool = True
    d_model: int = 384
    heads: int = 6
    d_ff: int = 1536
    norm_placement: Literal["post", "pre"] = "pre"
    norm_epsilon: float = 1e-5
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "gelu"
    positions: Literal["sinusoidal", "learned", "one-hot", "rotary", "relative", "none"] = "rotary"

    def __post_init__(self) -> None:
        check_sizes(self, ("vocabulary", "layers", "context"))
        super().__post_init__()
        if self.norm == "batch":
            raise SettingsError(
                "norm = 'batch' is not available in a language model: its statistics would contain later tokens"
            )
        if self.max_context is not None and self.context > self.max_context:
            raise SettingsError(
                f"context is {self.context}, but there are only max_positions = {self.max_positions} positions"
            )

    @property
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions limit it."""
        return self.max_positions if self.positions in ("learned", "one-hot") else None

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return f"{self.layers} layers, d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}"

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from text_vocabulary(self.vocabulary, self.d_model, tied=self.tied_embeddings)
        yield from within("embedding.positions", self.position_tensors())
        for i in range(self.layers):
            yield from within(f"layers.{i}", self.layer_tensors(future=False))
        yield from within("final_norm", self.final_norm())


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
        "activation": "gelu_tanh",
        "positions": "learned",
        "attention_bias": True,
    },
}
