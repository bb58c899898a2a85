"""Loading of a model directory into the native engine."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from dragoman.errors import SettingsError
from dragoman.models.config import ModelConfig
from dragoman.models.weights import open_weights
from dragoman.native import unsupported_reason

Model = TypeVar("Model")
# Returns the weight of a name, or None if the model has no such weight.
ReadWeight = Callable[[str], NDArray[Any] | None]
# If there are more threads than texts, up to MOST_SHARING of them share the products of one text, provided that a
# product reads at least SHARED_BYTES of weights. In smaller models, synchronisation takes longer than it saves.
MOST_SHARING, SHARED_BYTES = 8, 16_000_000
MOST_THREADS = 4096


def load_into_engine(directory: Path, config: ModelConfig, build: Callable[[ReadWeight], Model]) -> Model:
    """Return the model that `build` makes from the weights of a model directory.

    Args:
        directory: the model directory.
        config: the settings of the model.
        build: builds the model from a function that returns weights.

    Raises:
        SettingsError: if the native engine does not support the model.
        ModelError: if the weights are missing, damaged, or do not fit the settings.
        FloatingPointError: if the weights are not finite.
    """
    if unsupported := unsupported_reason(config):
        raise SettingsError(f"the native engine does not support this model: {unsupported}; use the torch engine")
    with open_weights(directory, config) as weights:
        unread = set(weights.names)

        def read(name: str) -> NDArray[Any] | None:
            if name not in weights.names:
                return None
            unread.discard(name)
            return weights.read(name)

        model = build(read)
        assert not unread, f"the native engine did not read {min(unread)}"
        return model


def check_between(name: str, value: int | None, maximum: int) -> None:
    """Check a number that is at least 1; None is a default.

    Raises:
        SettingsError: the number is out of range.
    """
    if value is not None and not 1 <= value <= maximum:
        raise SettingsError(f"{name} must lie between 1 and {maximum:,}, got {value}")
