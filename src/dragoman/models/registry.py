"""The architectures: the one table of their settings, presets and builders.

Nothing here needs torch until a model is built, as its import takes seconds: a builder is named by its place.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.errors import SettingsError, UserError, quoted
from dragoman.models.config import ModelConfig, convolutional, recurrent, transformer, universal
from dragoman.settings import from_mapping

if TYPE_CHECKING:
    from dragoman.models.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Architecture:
    """A kind of model.

    config   the class of its settings, a `ModelConfig`
    presets  by name, settings that differ from the defaults
    builder  "module:function", from settings to a model
    """

    config: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    builder: str

    def load_builder(self) -> "Callable[[Any], Seq2Seq]":
        """Import the function that builds a model."""
        module, _, function = self.builder.partition(":")
        found: Callable[[Any], Seq2Seq] = getattr(importlib.import_module(module), function)
        return found


# By the names that config.json, run files and `dragoman train --model` know.
ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(config, presets, f"dragoman.models.{name}:build_{name}")
    for name, config, presets in (
        ("transformer", transformer.TransformerConfig, transformer.PRESETS),
        ("recurrent", recurrent.RecurrentConfig, recurrent.PRESETS),
        ("convolutional", convolutional.ConvolutionalConfig, convolutional.PRESETS),
        ("universal", universal.UniversalConfig, universal.PRESETS),
    )
}


def architecture_named(name: str) -> Architecture:
    """Return an architecture of the table.

    Raises:
        SettingsError: for an unknown name.
    """
    if name not in ARCHITECTURES:
        raise SettingsError(f"unknown architecture {name!r}: choose one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def architecture_of(config: ModelConfig) -> str:
    """Return the name of the architecture that `config` describes."""
    return next(name for name, each in ARCHITECTURES.items() if each.config is type(config))


def build_model(config: ModelConfig) -> "Seq2Seq":
    """Build and initialise the model that `config` describes."""
    return ARCHITECTURES[architecture_of(config)].load_builder()(config)


def read_model_config(
    architecture: object, settings: object, where: str, *, error: type[UserError] = SettingsError
) -> ModelConfig:
    """Return the settings of an architecture, from a mapping called "model" in `where`.

    Raises:
        error: for an unknown architecture, an unknown key, or values that contradict each other.
    """
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise error(f"{where}: unknown architecture {quoted(architecture)}: it is one of {', '.join(ARCHITECTURES)}")
    if not isinstance(settings, Mapping):
        raise error(f"{where}: model must be a table of settings, not {quoted(settings)}")
    config: ModelConfig = from_mapping(ARCHITECTURES[architecture].config, settings, where, place="model", error=error)
    return config


def preset(
    name: str, source_vocabulary: int, target_vocabulary: int, *, joint: bool, architecture: str = "transformer"
) -> ModelConfig:
    """Return the settings of a named size, for vocabularies of these sizes.

    With one joint vocabulary the three embeddings are tied, as in "Attention Is All You Need" (section 3.4); with
    separate ones target and output are.

    Raises:
        SettingsError: for an unknown architecture, or a name that it does not have.
    """
    chosen = architecture_named(architecture)
    if name not in chosen.presets:
        raise SettingsError(f"{architecture} has no preset {name!r}: choose one of {', '.join(chosen.presets)}")
    settings = {
        "source_vocabulary": source_vocabulary,
        "target_vocabulary": target_vocabulary,
        "tied_embeddings": "three-way" if joint else "two-way",
        **chosen.presets[name],
    }
    config: ModelConfig = from_mapping(chosen.config, settings, f"preset {name}")
    return config
