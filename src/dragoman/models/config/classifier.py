"""The settings of the classifier of texts."""

from dataclasses import dataclass
from typing import Any, Literal

from dragoman.models.config.labelled import LabelledConfig


@dataclass(frozen=True, kw_only=True)
class ClassifierConfig(LabelledConfig):
    """Settings of a classifier of texts; see `LabelledConfig`.

    Attributes:
        pool: vector of a text: the "mean" of the states of its tokens, or the state of the "first", which is BOS.
    """

    pool: Literal["mean", "first"] = "mean"


# The sizes are those of the encoder, see the presets of the architecture "masked".
PRESETS: dict[str, dict[str, Any]] = {}
