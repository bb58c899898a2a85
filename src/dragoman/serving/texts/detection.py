"""Detection of the language of a text by py3langid (Lui and Baldwin 2012, "langid.py")."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dragoman.serving.texts.languages import base_of
from dragoman.serving.texts.translated import Detection

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A candidate of a smaller probability is left out.
SMALLEST_CONFIDENCE = 0.01
# The beginning of a text is enough; the time is proportional to the length (about 1 ms per 1,000 characters).
MOST_CHARACTERS = 4000
# Letters in UTF-8. Two Latin letters ("ok") are words of many languages; two ideographs have six bytes.
FEWEST_LETTER_BYTES = 4
# The answer for a text whose language cannot be detected, if the server has no other suggestion.
DEFAULT_LANGUAGE = "en"


class LanguageDetector:
    """Detects languages. The model is loaded once, by `load` or at the first use (about 2 s)."""

    def __init__(self) -> None:
        self._loading = threading.Lock()

    async def load(self) -> None:
        """Load the model in a thread, unless it is loaded."""
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        with self._loading:
            _ = self._identifier

    @cached_property
    def _identifier(self) -> LanguageIdentifier:
        # The model of the package is read when it is imported, in 2 s.
        from py3langid.langid import MODEL_FILE, LanguageIdentifier

        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)

    def probabilities(self, text: str) -> dict[str, float]:
        """Return the probability of each language, the most probable first.

        The result is empty if the text has too few letters, or none of a language that the model has learned.
        """
        text = text[:MOST_CHARACTERS]
        if len("".join(filter(str.isalpha, text)).encode("utf-8", "replace")) < FEWEST_LETTER_BYTES:
            return {}
        self._load()
        ranked = dict(self._identifier.rank(text))
        highest, lowest = max(ranked.values()), min(ranked.values())
        # Equal probabilities: the text has none of the model's features.
        return {} if highest - lowest < 1e-6 else {language: float(value) for language, value in ranked.items()}

    def candidates(self, text: str) -> list[Detection]:
        """Return the languages of a text, the most probable first; one with confidence 0 if none can be detected.

        These are all languages of the model of detection with a probability of at least `SMALLEST_CONFIDENCE`, not
        only those that the server can translate.
        """
        candidates = [
            Detection(language=language, confidence=probability)
            for language, probability in self.probabilities(text).items()
            if probability >= SMALLEST_CONFIDENCE
        ]
        return candidates or [Detection(language=DEFAULT_LANGUAGE, confidence=0.0)]

    def best_of(self, codes: Sequence[str], text: str) -> Detection:
        """Return the most probable of the given languages.

        Its confidence is its probability among all languages, so it is low for a text in a language that is not one
        of them. If the language cannot be detected, English if it is one of them, else the first, with confidence 0.
        """
        probabilities = self.probabilities(text)
        default = next((code for code in codes if base_of(code) == DEFAULT_LANGUAGE), codes[0])
        ordered = [default, *(code for code in codes if code != default)]
        best = max(ordered, key=lambda code: probabilities.get(base_of(code), 0.0))
        return Detection(language=best, confidence=probabilities.get(base_of(best), 0.0))
