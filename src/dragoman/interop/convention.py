"""What differs between two libraries in the description of the same model: settings, and names of the weights."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from dragoman.errors import ModelError, quoted
from dragoman.models.config import ModelConfig
from dragoman.models.shapes import TensorShape
from dragoman.models.weights import Array

# transformers' names of the activations, and ours; of several names for a function the first one is exported.
Activation = Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu"]
ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}


@dataclass(frozen=True)
class Correspondence:
    """A tensor of the other library, and the weights of ours that it consists of.

    Attributes:
        name: name in the other library.
        parts: names of our weights; several are concatenated along their first dimension.
        transposed: True if the other library stores the transposed matrix, with inputs before outputs.
        upside_down: True if the other library has the rows in reverse order.
        dimensions: our shape and the shape in the other library, if only the division into dimensions differs.
    """

    name: str
    parts: tuple[str, ...]
    transposed: bool = False
    upside_down: bool = False
    dimensions: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    def shape(self, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
        """Return the shape of the tensor, from the shapes of our weights."""
        if self.dimensions is not None:
            ours, theirs = self.dimensions
            assert shapes[self.parts[0]] == ours
            return theirs
        first, *rest = shapes[self.parts[0]]
        shape = (first * len(self.parts), *rest)
        return shape[::-1] if self.transposed else shape

    def split(self, values: Array) -> Iterator[tuple[str, Array]]:
        """Yield the name and the values of each of our weights, from the tensor of the other library."""
        if self.dimensions is not None:
            values = values.reshape(self.dimensions[0])
        # [K, 3D] -> [3D, K] -> three of [D, K]
        parts = np.split(self._turned(values.T if self.transposed else values), len(self.parts))
        yield from zip(self.parts, map(np.ascontiguousarray, parts), strict=True)

    def join(self, read: Callable[[str], Array]) -> Array:
        """Return the tensor of the other library; `read` returns our weight of a name."""
        # three of [D, K] -> [3D, K] -> [K, 3D]
        values = self._turned(np.concatenate([read(part) for part in self.parts]))
        values = np.ascontiguousarray(values.T if self.transposed else values)
        return values if self.dimensions is None else values.reshape(self.dimensions[1])

    def _turned(self, values: Array) -> Array:
        return values[::-1] if self.upside_down else values


class Convention(ABC):
    """How another library describes the models of one of our architectures.

    Attributes:
        model_type: the name of the models in config.json of the other library.
        architecture: our name, a key of `registry.ARCHITECTURES`.
    """

    model_type: ClassVar[str]
    architecture: ClassVar[str]

    @abstractmethod
    def read_settings(self, settings: Mapping[str, object], names: Collection[str], where: str) -> ModelConfig:
        """Return our settings.

        Args:
            settings: contents of config.json of the other library.
            names: names of its tensors, see `full_name`.
            where: name of that file, for messages.

        Raises:
            ModelError: a setting is missing, invalid or not supported.
        """

    @abstractmethod
    def write_settings(self, config: ModelConfig) -> dict[str, object]:
        """Return the contents of config.json of the other library.

        Raises:
            ModelError: the other library has no such models; the message names the setting.
        """

    @abstractmethod
    def correspondences(self, config: ModelConfig) -> Iterator[Correspondence]:
        """Yield the tensors of the other library; together they contain each of our weights once."""

    @abstractmethod
    def full_name(self, name: str) -> str:
        """Return the present name of a tensor, which has other names in older files."""

    @abstractmethod
    def ignored(self, name: str, config: ModelConfig) -> bool:
        """Return whether a tensor, given by its full name, is not part of our model."""

    @abstractmethod
    def check_folder(self, folder: Path) -> None:
        """Check those further files of a folder that change the meaning of the model.

        Raises:
            ModelError: what the file describes is not supported.
        """

    def tensors(self, config: ModelConfig) -> Iterator[TensorShape]:
        """Yield names and shapes of the tensors of the other library."""
        shapes = {tensor.name: tensor.shape for tensor in config.tensors()}
        for correspondence in self.correspondences(config):
            yield TensorShape(correspondence.name, correspondence.shape(shapes))


def both(theirs: str, ours: str, *, upside_down: bool = False) -> Iterator[Correspondence]:
    """Yield weight and bias of a linear map or of a norm."""
    for kind in ("weight", "bias"):
        yield Correspondence(f"{theirs}.{kind}", (f"{ours}.{kind}",), upside_down=upside_down)


def exported_activation(activation: str) -> Activation:
    """Return transformers' name of one of the activations in `ACTIVATIONS`."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def read_supported(settings: Mapping[str, object], name: str, supported: object, where: str) -> None:
    """Check that a setting of the other library is absent or has the only supported value.

    Raises:
        ModelError: it has another value.
    """
    value = settings.get(name, supported)
    if value != supported:
        raise ModelError(f"{where}: {name} is {quoted(value)}; only {supported!r} is supported")


def check_representable(
    config: ModelConfig, exported: Iterable[str], required: Mapping[str, Collection[Any]], models: str
) -> None:
    """Check that the other library has models with these settings.

    Args:
        config: our settings.
        exported: settings that may have any value.
        required: for each further setting, the values that it may have. A setting that is in neither must have its
            default, which keeps a setting that is new from being lost.
        models: name of the other library's models, for the message.

    Raises:
        ModelError: a setting has another value.
    """
    free = set(exported)
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        allowed = required.get(field.name, (field.default,))
        if field.name not in free and value not in allowed:
            choices = " or ".join(repr(choice) for choice in allowed)
            raise ModelError(
                f"{models} cannot represent {field.name} = {value!r}, only {choices}: train a model with that setting"
            )
