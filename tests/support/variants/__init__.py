"""A model of every kind at a size for tests, by name: what holds for all of them is tested on all of them.

Each architecture has a file here, named as in the table of architectures.
"""

from importlib import import_module

from dragoman.models.config import ModelConfig
from dragoman.models.registry import ARCHITECTURES

VARIANTS: dict[str, ModelConfig] = {
    f"{architecture}, {name}": config
    for architecture in ARCHITECTURES
    for name, config in import_module(f"{__name__}.{architecture}").VARIANTS.items()
}
