"""The table of architectures, with their settings, presets and builders.

This module does not import torch, which takes seconds, until a model is built; therefore builders are given by name.
"""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dragoman.errors import SettingsError, UserError, quoted
from dragoman.models.config import (
    ImageClassifierConfig,
    ModelConfig,
    Seq2SeqConfig,
    TextModelConfig,
    classifier,
    convolutional,
    decoder_only,
    image_convolution,
    language,
    masked,
    recurrent,
    recurrent_language,
    sagan,
    tagger,
    transformer,
    transformer_xl,
    universal,
    vision,
)
from dragoman.settings import from_mapping

if TYPE_CHECKING:
    from torch import nn

    from dragoman.models.image_classifier import ImageClassifier
    from dragoman.models.language_model import LanguageModel
    from dragoman.models.seq2seq import Seq2Seq
    from dragoman.models.text_encoder import TextEncoder

# What a model does: translate a source into a target, continue a text, represent the tokens of a text, give labels to
# texts, words or images, or make pictures.
Kind = Literal["seq2seq", "language", "encoder", "classifier", "tagger", "image-classifier", "gan"]


@dataclass(frozen=True)
class Architecture:
    """Entry of the table of architectures.

    Attributes:
        kind: what its models do.
        config: class of its settings: a `Seq2SeqConfig` if the kind is "seq2seq", an `ImageClassifierConfig` if it is
            "image-classifier", a `SaganConfig` if it is "gan", else a `TextModelConfig`.
        presets: for each preset, the settings that differ from the defaults.
        builder: "module:function" of the function that builds a model from its settings.
    """

    kind: Kind
    config: type[Any]
    presets: Mapping[str, Mapping[str, Any]]
    builder: str

    def load_builder(self) -> "Callable[[Any], nn.Module]":
        """Import the function that builds a model."""
        module, _, function = self.builder.partition(":")
        builder: Callable[[Any], nn.Module] = getattr(importlib.import_module(module), function)
        return builder


_TABLE: tuple[tuple[str, Kind, type[Any], Mapping[str, Mapping[str, Any]]], ...] = (
    ("transformer", "seq2seq", transformer.TransformerConfig, transformer.PRESETS),
    ("recurrent", "seq2seq", recurrent.RecurrentConfig, recurrent.PRESETS),
    ("convolutional", "seq2seq", convolutional.ConvolutionalConfig, convolutional.PRESETS),
    ("universal", "seq2seq", universal.UniversalConfig, universal.PRESETS),
    ("decoder-only", "seq2seq", decoder_only.DecoderOnlyConfig, decoder_only.PRESETS),
    ("language", "language", language.LanguageConfig, language.PRESETS),
    ("recurrent-language", "language", recurrent_language.RecurrentLanguageConfig, recurrent_language.PRESETS),
    ("transformer-xl", "language", transformer_xl.TransformerXLConfig, transformer_xl.PRESETS),
    ("masked", "encoder", masked.MaskedConfig, masked.PRESETS),
    ("classifier", "classifier", classifier.ClassifierConfig, classifier.PRESETS),
    ("tagger", "tagger", tagger.TaggerConfig, tagger.PRESETS),
    ("vision", "image-classifier", vision.VisionConfig, vision.PRESETS),
    ("image-convolution", "image-classifier", image_convolution.ImageConvolutionConfig, image_convolution.PRESETS),
    ("sagan", "gan", sagan.SaganConfig, sagan.PRESETS),
)
# The keys are the names used in config.json, in run files and by `dragoman train --model`.
ARCHITECTURES: dict[str, Architecture] = {
    name: Architecture(kind, config, presets, f"dragoman.models.{module}:build_{module}")
    for name, kind, config, presets in _TABLE
    for module in [name.replace("-", "_")]
}


def architectures(kind: Kind) -> dict[str, Architecture]:
    """Return the architectures of this kind, by name."""
    return {name: architecture for name, architecture in ARCHITECTURES.items() if architecture.kind == kind}


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


def kind_of(config: ModelConfig) -> Kind:
    """Return what a model with these settings does."""
    return ARCHITECTURES[architecture_of(config)].kind


def build_any(config: ModelConfig) -> "nn.Module":
    """Build the model of any kind that `config` describes, with random initial weights."""
    return ARCHITECTURES[architecture_of(config)].load_builder()(config)


def build_language_model(config: TextModelConfig) -> "LanguageModel":
    """Build the language model that `config` describes, with random initial weights.

    Example:
        >>> model = build_language_model(text_preset("tiny", 1000))
        >>> sum(parameter.numel() for parameter in model.parameters())
        163584
    """
    from dragoman.models.language_model import LanguageModel

    model = build_any(config)
    assert isinstance(model, LanguageModel)
    return model


def build_encoder(config: TextModelConfig) -> "TextEncoder":
    """Build the encoder of texts that `config` describes, with random initial weights.

    Example:
        >>> encoder = build_encoder(text_preset("tiny", 1000, architecture="masked"))
        >>> encoder.width
        64
    """
    from dragoman.models.text_encoder import TextEncoder

    model = build_any(config)
    assert isinstance(model, TextEncoder)
    return model


def build_image_classifier(config: ImageClassifierConfig) -> "ImageClassifier":
    """Build the classifier of images that `config` describes, with random initial weights.

    Example:
        >>> model = build_image_classifier(image_preset("tiny", ("cat", "dog"), image_size=32))
        >>> model.width
        64
    """
    from dragoman.models.image_classifier import ImageClassifier

    model = build_any(config)
    assert isinstance(model, ImageClassifier)
    return model


def build_model(config: Seq2SeqConfig) -> "Seq2Seq":
    """Build the sequence-to-sequence model that `config` describes, with random initial weights.

    Example:
        >>> model = build_model(preset("tiny", 1000, 1000, joint=True))
        >>> sum(parameter.numel() for parameter in model.parameters())
        295936
    """
    from dragoman.models.seq2seq import Seq2Seq

    model = build_any(config)
    assert isinstance(model, Seq2Seq)
    return model


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
) -> Seq2SeqConfig:
    """Return the settings of a preset of a sequence-to-sequence architecture.

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
    entry = _entry_of_kind(architecture, name, "seq2seq")
    settings = {
        "source_vocabulary": source_vocabulary,
        "target_vocabulary": target_vocabulary,
        "tied_embeddings": "three-way" if joint else "two-way",
        **entry.presets[name],
    }
    config: Seq2SeqConfig = from_mapping(entry.config, settings, f"preset {name}")
    return config


def text_preset(name: str, vocabulary: int, *, architecture: str = "language") -> TextModelConfig:
    """Return the settings of a preset of an architecture of texts: a language model or an encoder.

    Args:
        name: name of the preset, such as "tiny" or "mini".
        vocabulary: number of tokens in the vocabulary.
        architecture: a name in `ARCHITECTURES`.

    Raises:
        SettingsError: the architecture is unknown, or has no preset of this name.

    Example:
        >>> text_preset("nano", 69).shape()
        '4 layers, d_model 128, 4 heads, d_ff 512'
    """
    kind: Kind = "language" if architecture_named(architecture).kind == "language" else "encoder"
    entry = _entry_of_kind(architecture, name, kind)
    settings = {"vocabulary": vocabulary, **entry.presets[name]}
    config: TextModelConfig = from_mapping(entry.config, settings, f"preset {name}")
    return config


def gan_preset(
    name: str, size: int, channels: int, labels: tuple[str, ...], *, architecture: str = "sagan"
) -> "sagan.SaganConfig":
    """Return the settings of a preset of an architecture that makes pictures.

    Args:
        name: name of the preset, such as "tiny" or "mini".
        size: height and width of the pictures.
        channels: 1 for grey pictures, 3 for colour.
        labels: names of the labels; empty for a model without labels.
        architecture: a name in `ARCHITECTURES`.

    Raises:
        SettingsError: the architecture is unknown, has no preset of this name, or makes no pictures of this size.

    Example:
        >>> gan_preset("mini", 32, 1, ()).shape()
        '32x32 grey, width 16, latent 64, attention at 16x16, no labels'
    """
    entry = _entry_of_kind(architecture, name, "gan")
    # Pictures of 16x16 have no feature map of the default size.
    smallest = {"attention": 8} if size == 16 else {}
    settings = {"size": size, "channels": channels, "labels": list(labels), **smallest, **entry.presets[name]}
    config: sagan.SaganConfig = from_mapping(entry.config, settings, f"preset {name}")
    return config


def image_preset(
    name: str, labels: Sequence[str], *, image_size: int, channels: int = 3, architecture: str = "vision"
) -> ImageClassifierConfig:
    """Return the settings of a preset of an architecture that gives a label to an image.

    Args:
        name: name of the preset, such as "tiny" or "mini".
        labels: the labels, in the order of the logits.
        image_size: height and width of the images in pixels.
        channels: number of numbers for each pixel: 3 for red, green and blue, or 1 for a grey value.
        architecture: a name in `ARCHITECTURES`.

    Raises:
        SettingsError: the architecture is unknown, or has no preset of this name, or cannot read images of this size.

    Example:
        >>> image_preset("base", ("cat", "dog"), image_size=224).shape()
        '12 layers, d_model 768, 12 heads, d_ff 3072, images of 224 x 224 in patches of 16 x 16, 2 labels'
    """
    entry = _entry_of_kind(architecture, name, "image-classifier")
    settings = {"labels": labels, "image_size": image_size, "channels": channels, **entry.presets[name]}
    config: ImageClassifierConfig = from_mapping(entry.config, settings, f"preset {name}")
    return config


def _entry_of_kind(architecture: str, preset_name: str, kind: Kind) -> Architecture:
    entry = architecture_named(architecture)
    if entry.kind != kind:
        raise SettingsError(f"{architecture} is not one of {', '.join(architectures(kind))}")
    if preset_name not in entry.presets:
        raise SettingsError(f"{architecture} has no preset {preset_name!r}: choose one of {', '.join(entry.presets)}")
    return entry
