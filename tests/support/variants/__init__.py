"""Small variants of every architecture, by name, for tests that hold for all models.

Each architecture has a file here with the name that it has in the table of architectures.
"""

from importlib import import_module
from typing import Any

from dragoman.models.config import ImageClassifierConfig, Seq2SeqConfig, TextModelConfig
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.registry import Kind, architectures


def _variants(kind: Kind) -> dict[str, Any]:
    return {
        f"{architecture}, {name}": config
        for architecture in architectures(kind)
        for name, config in import_module(f"{__name__}.{architecture.replace('-', '_')}").VARIANTS.items()
    }


VARIANTS: dict[str, Seq2SeqConfig] = _variants("seq2seq")
LANGUAGE_VARIANTS: dict[str, TextModelConfig] = _variants("language")
ENCODER_VARIANTS: dict[str, TextModelConfig] = _variants("encoder")
IMAGE_VARIANTS: dict[str, ImageClassifierConfig] = _variants("image-classifier")
GAN_VARIANTS: dict[str, SaganConfig] = _variants("gan")
