"""The settings of each model: frozen, checked, saved as config.json. Nothing here needs torch."""

from collections.abc import Mapping

from dragoman.errors import UserError
from dragoman.models.config.convolutional import ConvolutionalConfig
from dragoman.models.config.recurrent import RecurrentConfig
from dragoman.models.config.transformer import TransformerConfig
from dragoman.models.config.universal import UniversalConfig
from dragoman.settings import from_mapping

__all__ = [
    "ARCHITECTURES",
    "ConvolutionalConfig",
    "ModelConfig",
    "RecurrentConfig",
    "TransformerConfig",
    "UniversalConfig",
    "architecture_of",
    "read_model_config",
]

ModelConfig = TransformerConfig | RecurrentConfig | ConvolutionalConfig | UniversalConfig

# The names that config.json and `dragoman train --model` know.
ARCHITECTURES: dict[str, type[ModelConfig]] = {
    "transformer": TransformerConfig,
    "recurrent": RecurrentConfig,
    "convolutional": ConvolutionalConfig,
    "universal": UniversalConfig,
}


def architecture_of(config: ModelConfig) -> str:
    """The name of the architecture that `config` describes."""
    return next(name for name, cls in ARCHITECTURES.items() if cls is type(config))


def read_model_config(architecture: object, settings: object, where: str) -> ModelConfig:
    """The settings of an architecture, from a mapping called "model" in `where`.

    Raises:
        UserError: for an unknown architecture, an unknown key, or values that contradict each other.
    """
    if architecture not in ARCHITECTURES:
        raise UserError(f"{where}: unknown architecture {architecture!r}: it is one of {', '.join(ARCHITECTURES)}")
    if not isinstance(settings, Mapping):
        raise UserError(f"{where}: model must be a table of settings, not {settings!r}")
    assert isinstance(architecture, str)
    return from_mapping(ARCHITECTURES[architecture], settings, where, place="model")
