"""The table of architectures, with their settings, presets and builders.

This module does not import torch, which takes seconds, until a model is built; therefore builders are given by name.
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
    """Entry of the table of architectures.

    Attributes:
        config: class of its settings, a `ModelConfig`.
        presets: for each preset, the settings that differ from the defaults.
        builder: "module:function" of the function that builds a model from its settings.
    """

    config: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    builder: str

    def load_builder(self) -> "Callable[[Any], Seq2Seq]":
        """Import the function that builds a model."""
        module, _, function = self.builder.partition(":")
        builder: Callable[[Any], Seq2Seq] = getattr(importlib.import_module(module), function)
        return builder


# The keys are the names used in config.json, in run files and by `dragoman train --model`.
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
    """Return the architecture of this name.

    Raises:
        SettingsError: the name is unknown.
    """
    if name not in ARCHITECTURES:
        raise SettingsError(f"unknown architecture {name!r}: choose one of {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def architecture_of(config: ModelConfig) -> str:
    """Return the name of the architecture to which `config` belongs."""
    return next(name for name, architecture in ARCHITECTURES.items() if architecture.config is type(config))


def build_model(config: ModelConfig) -> "Seq2Seq":
    """Build the model that `config` describes, with random initial weights.

    Example:
        >>> model = build_model(preset("tiny", 1000, 1000, joint=True))
        >>> sum(parameter.numel() for parameter in model.parameters())
        295936
    """
    return ARCHITECTURES[architecture_of(config)].load_builder()(config)


def read_model_config(
    architecture: object, settings: object, where: str, *, error: type[UserError] = SettingsError
) -> ModelConfig:
    """Return the settings of a model, from plain values that were read from a file.

    Args:
        architecture: name of the architecture.
        settings: mapping from settings to values, the table "model" of the file.
        where: name of the file, for messages.
        error: class of the error that is raised.

    Raises:
        error: the architecture or a key is unknown, or a value is invalid.
    """
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise error(f"{where}: unknown architecture {quoted(architecture)}: choose one of {', '.join(ARCHITECTURES)}")
    if not isinstance(settings, Mapping):
        raise error(f"{where}: model must be a table of settings, not {quoted(settings)}")
    config: ModelConfig = from_mapping(ARCHITECTURES[architecture].config, settings, where, place="model", error=error)
    return config


def preset(
    name: str, source_vocabulary: int, target_vocabulary: int, *, joint: bool, architecture: str = "transformer"
) -> ModelConfig:
    """Return the settings of a preset.

    Args:
        name: name of the preset, such as "tiny", "small" or "base".
        source_vocabulary: number of source subwords.
        target_vocabulary: number of target subwords.
        joint: True if source and target share one vocabulary. Then both embeddings and the output projection share a
            matrix, as in "Attention Is All You Need" (section 3.4); otherwise target embedding and output share one.
        architecture: a name in `ARCHITECTURES`.

    Raises:
        SettingsError: the architecture is unknown, or has no preset of this name.

    Example:
        >>> config = preset("base", 37_000, 37_000, joint=True)
        >>> config.shape()
        '6 encoder and 6 decoder layers, d_model 512, 8 heads, d_ff 2048'
    """
    entry = architecture_named(architecture)
    if name not in entry.presets:
        raise SettingsError(f"{architecture} has no preset {name!r}: choose one of {', '.join(entry.presets)}")
    settings = {
        "source_vocabulary": source_vocabulary,
        "target_vocabulary": target_vocabulary,
        "tied_embeddings": "three-way" if joint else "two-way",
        **entry.presets[name],
    }
    config: ModelConfig = from_mapping(entry.config, settings, f"preset {name}")
    return config
