"""Small variants of every architecture, by name, for tests that hold for all models.

Each architecture has a file here with the name that it has in the table of architectures.
"""

from importlib import import_module

from dragoman.models.config import ModelConfig
from dragoman.models.registry import ARCHITECTURES

VARIANTS: dict[str, ModelConfig] = {
    f"{architecture}, {name}": config
    for architecture in ARCHITECTURES
    for name, config in import_module(f"{__name__}.{architecture}").VARIANTS.items()
}
