"""Confidence: the probability that a translation is good, from the probability that the model gives to its output.

A translation is good if its chrF against the reference is at least `GOOD_CHRF`. The confidence is fitted to held-out
pairs, so that of all lines with a confidence of 0.7, about 70 % are good. It holds for text like that of the pairs.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from dragoman.errors import ModelError, reason_of
from dragoman.evaluation.logistic import LogisticMap
from dragoman.files import parse_json_object, read_verified
from dragoman.models.description import CONFIDENCE_FILE, LISTED_FILES, ModelDescription, add_file
from dragoman.settings import from_mapping
from dragoman.translation.results import Translation

# Smallest chrF of a good line. From 70 to 80, the median line of the test set in benchmarks/RESULTS.md needs two edits,
# a third of its words; from 60 to 70, four edits and half of its words.
GOOD_CHRF = 70.0
# Upper limit of the parameters, far above those of any fit.
LARGEST_PARAMETER = 1e4


def certainty(translation: Translation) -> float | None:
    """Return the geometric mean of the probabilities of the target tokens, 0 to 1.

    None for an output whose probability does not tell how good it is: there is no text, its end may be missing, it was
    copied in part, or the source was not valid UTF-8.
    """
    if not translation.tokens or translation.truncated or translation.copied or translation.invalid_utf8:
        return None
    return math.exp(min(0.0, translation.log_probability / translation.tokens))


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """A monotone map from `certainty` to the probability that a translation is good.

    Attributes:
        slope: of the logistic map, not negative.
        offset: of the logistic map.
        good_chrf: smallest chrF of a good line.
        lines: number of lines to which it was fitted.

    Raises:
        ModelError: if a number is out of range.
    """

    slope: float
    offset: float
    good_chrf: float
    lines: int

    def __post_init__(self) -> None:
        if not (0 <= self.slope <= LARGEST_PARAMETER and abs(self.offset) <= LARGEST_PARAMETER):
            raise ModelError(
                f"slope must lie between 0 and {LARGEST_PARAMETER:,.0f}, and offset between its negative and it, "
                f"not {self.slope:g} and {self.offset:g}"
            )
        if not (0 <= self.good_chrf <= 100 and self.lines > 0):
            raise ModelError("good_chrf must lie between 0 and 100, and lines above 0")

    def of(self, translation: Translation) -> float | None:
        """Return the probability, 0 to 1, that a translation is good; None if `certainty` is."""
        value = certainty(translation)
        return None if value is None else self.at(value)

    def at(self, certainty: float) -> float:
        """Return the probability, 0 to 1, that a translation with this certainty is good."""
        return LogisticMap(slope=self.slope, offset=self.offset)(certainty)

    def save(self, directory: Path) -> None:
        """Write confidence.json into a model directory.

        Raises:
            ModelError: if `directory` contains no model.
        """
        values = {"slope": self.slope, "offset": self.offset, "good_chrf": self.good_chrf, "lines": self.lines}
        add_file(directory, CONFIDENCE_FILE, (json.dumps(values) + "\n").encode())

    @classmethod
    def load(cls, directory: Path, description: ModelDescription) -> Self | None:
        """Read confidence.json of a model directory; return None if there is none.

        Raises:
            ModelError: if the file is damaged, or not the one listed in config.json.
        """
        path = directory / CONFIDENCE_FILE
        try:
            mapping = parse_json_object(read_verified(path, LISTED_FILES[CONFIDENCE_FILE], description.listed))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ModelError(f"{path} is damaged: {reason_of(error)}; `dragoman calibrate` writes it again") from error
        return from_mapping(cls, mapping, str(path), error=ModelError)
