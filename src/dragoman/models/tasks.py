"""The tasks other than translation, and the architectures of each. This module does not import torch."""

from collections.abc import Mapping

from dragoman.models.registry import Kind

# Kind of the models of each task.
KINDS: Mapping[str, Kind] = {
    "language": "language",
    "masked": "encoder",
    "classify": "classifier",
    "tag": "tagger",
    "images": "gan",
    "classify-images": "image-classifier",
}
# Tasks on pictures, which `dragoman images` offers and `dragoman train` does not.
PICTURE_TASKS = ("images", "classify-images")
# Default architecture of each task.
DEFAULT_ARCHITECTURES: Mapping[str, str] = {
    "language": "language",
    "masked": "masked",
    "classify": "classifier",
    "tag": "tagger",
    "images": "sagan",
    "classify-images": "vision",
}
