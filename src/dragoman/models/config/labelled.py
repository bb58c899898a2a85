"""The settings that classifiers and taggers share."""

from collections.abc import Iterator
from dataclasses import dataclass

from dragoman.errors import SettingsError
from dragoman.models.config.checks import MOST_LABELS, check_probabilities
from dragoman.models.config.masked import MaskedConfig
from dragoman.models.shapes import TensorShape, linear, within


@dataclass(frozen=True, kw_only=True)
class LabelledConfig:
    """Settings of an encoder of texts with a linear map from states to labels.

    Attributes:
        encoder: settings of the encoder.
        labels: the labels, sorted.
        dropout: probability of dropping a feature before the linear map.
    """

    encoder: MaskedConfig
    labels: tuple[str, ...]
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_probabilities(self, ("dropout",))
        if not 1 <= len(self.labels) <= MOST_LABELS:
            raise SettingsError(f"a model has from 1 to {MOST_LABELS:,} labels, not {len(self.labels):,}")
        if list(self.labels) != sorted(set(self.labels)):
            raise SettingsError("labels must be different and sorted")
        if self.encoder.prediction_head or self.encoder.pooler:
            raise SettingsError("encoder.prediction_head and encoder.pooler must be false: the labels replace them")

    @property
    def vocabulary(self) -> int:
        """Number of tokens in the vocabulary."""
        return self.encoder.vocabulary

    @property
    def d_model(self) -> int:
        """Width of the embeddings."""
        return self.encoder.d_model

    @property
    def context(self) -> int:
        """Largest number of tokens of a text that are read together."""
        return self.encoder.context

    @property
    def max_context(self) -> int | None:
        """Largest number of tokens of a text, if the positions limit it."""
        return self.encoder.max_context

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return f"{self.encoder.shape()}, {len(self.labels):,} labels"

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from within("encoder", self.encoder.tensors())
        yield from within("output", linear(len(self.labels), self.d_model, bias=True))
