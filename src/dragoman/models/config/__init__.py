"""The settings of the models, a file for each architecture, with its presets; none of them needs torch.

`models/registry.py` lists the architectures.
"""

from collections.abc import Iterator
from dataclasses import Field
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from dragoman.models.shapes import TensorShape

TiedEmbeddings = Literal["three-way", "two-way", "none"]


@runtime_checkable
class ModelConfig(Protocol):
    """What every architecture's settings have: a frozen dataclass, checked when it is made, saved as config.json.

    source_vocabulary, target_vocabulary  sizes in subwords
    d_model                               width of the embeddings
    dropout                               probability of dropping a feature in training
    tied_embeddings                       "three-way" (source, target, output; one joint vocabulary),
                                          "two-way" (target and output), or "none"
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def source_vocabulary(self) -> int: ...

    @property
    def target_vocabulary(self) -> int: ...

    @property
    def d_model(self) -> int: ...

    @property
    def dropout(self) -> float: ...

    @property
    def tied_embeddings(self) -> TiedEmbeddings: ...

    def shape(self) -> str:
        """Return the sizes in a few words."""

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model, as `model.safetensors` has it."""
