"""Train, run and inspect attention-based sequence-to-sequence models.

Example:
    >>> from dragoman import Translator
    >>> translator = Translator.load("models/mine")
    >>> [translation] = translator.translate(["Turn off the light."])
"""

import importlib
from typing import TYPE_CHECKING, Any

from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman.generation.generator import Generator
    from dragoman.representation.embedder import Embedder
    from dragoman.representation.labeller import Labeller
    from dragoman.run.train import train
    from dragoman.translation.translator import Translator

# Imported on first use: importing torch takes seconds, and `dragoman --help` must start at once.
_MODULES = {
    "Embedder": "dragoman.representation.embedder",
    "Generator": "dragoman.generation.generator",
    "Labeller": "dragoman.representation.labeller",
    "Translator": "dragoman.translation.translator",
    "train": "dragoman.run.train",
}

__all__ = ["Embedder", "Generator", "Labeller", "Translator", "__version__", "train"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
