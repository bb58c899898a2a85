"""The tasks other than translation, and the architectures of each. This module does not import torch."""

from collections.abc import Mapping

from dragoman.models.registry import Kind

# Kind of the models of each task.
KINDS: Mapping[str, Kind] = {
    "language": "language",
    "masked": "encoder",
    "classify": "classifier",
    "tag": "tagger",
}
# Default architecture of each task.
DEFAULT_ARCHITECTURES: Mapping[str, str] = {
    "language": "language",
    "masked": "masked",
    "classify": "classifier",
    "tag": "tagger",
}
