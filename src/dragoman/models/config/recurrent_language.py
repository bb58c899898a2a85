"""The settings and presets of the recurrent language model."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from dragoman.models.config.checks import check_probabilities, check_sizes
from dragoman.models.shapes import TensorShape, recurrent_layer, text_vocabulary, within


@dataclass(frozen=True, kw_only=True)
class RecurrentLanguageConfig:
    """Settings of the recurrent language model (Zaremba et al., 2014).

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        cell: "lstm" or "gru".
        layers: number of layers.
        context: number of tokens of a window of text in training.
        d_model: width of embeddings and states.
        dropout: probability of dropping a feature of the embeddings, between layers, or of the output.
        tied_embeddings: True if the embeddings and the output projection share a matrix.
    """

    vocabulary: int
    cell: Literal["lstm", "gru"] = "lstm"
    layers: int = 2
    context: int = 256
    d_model: int = 512
    dropout: float = 0.2
    tied_embeddings: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, ("vocabulary", "layers", "context", "d_model"))
        check_probabilities(self, ("dropout",))

    @property
    def max_context(self) -> int | None:
        """None: a text may have any number of tokens."""
        return None

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return f"{self.layers} {self.cell.upper()} layers, d_model {self.d_model}"

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from text_vocabulary(self.vocabulary, self.d_model, tied=self.tied_embeddings)
        for i in range(self.layers):
            yield from within(f"layers.{i}", recurrent_layer(self.cell, self.d_model, self.d_model))


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 64, "context": 64},
    "nano": {"d_model": 256, "context": 64},
    "mini": {},
    "gpt2-small": {"d_model": 2048, "context": 1024},
}
