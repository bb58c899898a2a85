"""The settings and presets of the models, one file for each architecture; this package does not import torch.

`models/registry.py` lists the architectures.
"""

from collections.abc import Iterator
from dataclasses import Field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from dragoman.models.shapes import TensorShape

TiedEmbeddings = Literal["three-way", "two-way", "none"]
# The factor of QKᵀ in the softmax of attention: 1/√d_k, 1, or this number.
AttentionScale = Literal["sqrt", "none"] | float


def attention_factor(scale: AttentionScale) -> float | None:
    """Return the factor of QKᵀ that a setting `attention_scale` means; None for 1/√d_k, the default of attention."""
    match scale:
        case "sqrt":
            return None
        case "none":
            return 1.0
        case _:
            return scale


@runtime_checkable
class ModelConfig(Protocol):
    """Interface of the settings of an architecture.

    An implementation is a frozen dataclass that checks its values when it is created. It is saved in config.json.

    Attributes:
        d_model: width of the embeddings.
        dropout: probability of dropping a feature in training.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def d_model(self) -> int: ...

    @property
    def dropout(self) -> float: ...

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model, as stored in model.safetensors."""


@runtime_checkable
class Seq2SeqConfig(ModelConfig, Protocol):
    """Interface of the settings of a sequence-to-sequence architecture.

    Attributes:
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        tied_embeddings: "three-way" (source, target and output share a matrix; one joint vocabulary), "two-way" (target
            and output), or "none".
    """

    @property
    def source_vocabulary(self) -> int: ...

    @property
    def target_vocabulary(self) -> int: ...

    @property
    def tied_embeddings(self) -> TiedEmbeddings: ...


@runtime_checkable
class TextModelConfig(ModelConfig, Protocol):
    """Interface of the settings of an architecture of texts: a language model or an encoder.

    Attributes:
        vocabulary: number of tokens in the vocabulary.
        context: number of tokens of a window of text in training.
        max_context: largest number of tokens of a text, if the positions limit it.
    """

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int: ...

    @property
    def max_context(self) -> int | None: ...


@runtime_checkable
class ImageClassifierConfig(ModelConfig, Protocol):
    """Interface of the settings of an architecture that gives a label to an image.

    Attributes:
        image_size: height and width of the images in pixels.
        channels: number of numbers for each pixel: 3 for red, green and blue, or 1 for a grey value.
        labels: the labels, in the order of the logits.
    """

    @property
    def image_size(self) -> int: ...

    @property
    def channels(self) -> int: ...

    @property
    def labels(self) -> tuple[str, ...]: ...
