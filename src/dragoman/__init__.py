"""Train, run and inspect attention-based sequence-to-sequence models.

Example:
    >>> from dragoman import Translator
    >>> translator = Translator.load("models/mine")
    >>> [translation] = translator.translate(["Turn off the light."])
"""

from typing import TYPE_CHECKING, Any

from dragoman.version import __version__

if TYPE_CHECKING:
    from dragoman.generation.generator import Generator
    from dragoman.representation.embedder import Embedder
    from dragoman.representation.labeller import Labeller
    from dragoman.run.train import train
    from dragoman.translation.translator import Translator

__all__ = ["Embedder", "Generator", "Labeller", "Translator", "__version__", "train"]


def __getattr__(name: str) -> Any:
    # Imported on first use: importing torch takes seconds, and `dragoman --help` must start at once.
    if name == "Embedder":
        from dragoman.representation.embedder import Embedder

        return Embedder
    if name == "Labeller":
        from dragoman.representation.labeller import Labeller

        return Labeller
    if name == "Translator":
        from dragoman.translation.translator import Translator

        return Translator
    if name == "Generator":
        from dragoman.generation.generator import Generator

        return Generator
    if name == "train":
        from dragoman.run.train import train

        return train
    raise AttributeError(f"module 'dragoman' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
