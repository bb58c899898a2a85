"""The settings of the tagger of words."""

from dataclasses import dataclass
from typing import Any

from dragoman.models.config.labelled import LabelledConfig


@dataclass(frozen=True, kw_only=True)
class TaggerConfig(LabelledConfig):
    """Settings of a tagger of words; see `LabelledConfig`."""


# The sizes are those of the encoder, see the presets of the architecture "masked".
PRESETS: dict[str, dict[str, Any]] = {}
