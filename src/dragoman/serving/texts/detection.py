"""Detection of the language of a text by py3langid (Lui and Baldwin 2012, "langid.py")."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from dragoman.serving.language_codes import base_of
from dragoman.serving.texts.translated import Detection

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

# A candidate of a smaller probability is left out.
SMALLEST_CONFIDENCE = 0.01
# The beginning of a text is enough; the time is proportional to the length (about 1 ms per 1,000 characters).
MOST_CHARACTERS = 4000
# Letters in UTF-8. Two Latin letters ("ok") are words of many languages; two ideographs have six bytes.
FEWEST_LETTER_BYTES = 4
# A text is in the target language, and comes back as it is, if it is long enough to trust the detection and the target
# has this share of the probabilities of the candidates. With English and German as candidates, this takes one of the
# 2,000 most common English words of user interfaces and 0.2 % of English messages for German.
FEWEST_TARGET_LETTER_BYTES, SMALLEST_TARGET_SHARE = 12, 0.7
# A text of a list that has at most this many characters is detected from the whole list, unless it is in one of the
# candidates with this share.
MOST_SHORT_CHARACTERS, SMALLEST_OWN_SHARE = 40, 0.95
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
        if _letter_bytes(text) < FEWEST_LETTER_BYTES:
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

    def best_of(self, codes: Sequence[str], text: str, *, target: str | None = None) -> Detection:
        """Return the most probable of the given languages.

        Its confidence is its probability among all languages, so it is low for a text in a language that is not one
        of them. If the language cannot be detected, English if it is one of them, else the first, with confidence 0.

        Args:
            codes: the languages, at least one.
            text: the text.
            target: one of the languages that is not returned for a short text or without a clear majority, if there
                are others: a text in it would come back untranslated.
        """
        probabilities = self.probabilities(text)
        others = [code for code in codes if code != target]
        if target is not None and others:
            long_enough = _letter_bytes(text) >= FEWEST_TARGET_LETTER_BYTES
            if not long_enough or _share(probabilities, target, codes) < SMALLEST_TARGET_SHARE:
                codes = others
        default = next((code for code in codes if base_of(code) == DEFAULT_LANGUAGE), codes[0])
        ordered = [default, *(code for code in codes if code != default)]
        best = max(ordered, key=lambda code: probabilities.get(base_of(code), 0.0))
        return Detection(language=best, confidence=probabilities.get(base_of(best), 0.0))

    def best_of_each(self, codes: Sequence[str], texts: Sequence[str], *, target: str) -> list[Detection]:
        """Return the most probable of the given languages for each text of a list, as `best_of`.

        A short text of several has the language of the whole list, unless another one is certain.
        """
        if len(texts) == 1:
            return [self.best_of(codes, texts[0], target=target)]
        whole = self.best_of(codes, "\n".join(texts), target=target)
        return [self._best_in_list(codes, text, target, whole) for text in texts]

    def _best_in_list(self, codes: Sequence[str], text: str, target: str, whole: Detection) -> Detection:
        own = self.best_of(codes, text, target=target)
        if len(text) > MOST_SHORT_CHARACTERS or own.language == whole.language:
            return own
        certain = (
            _letter_bytes(text) >= FEWEST_TARGET_LETTER_BYTES
            and _share(self.probabilities(text), own.language, codes) >= SMALLEST_OWN_SHARE
        )
        return own if certain else whole


def _letter_bytes(text: str) -> int:
    return len("".join(filter(str.isalpha, text)).encode("utf-8", "replace"))


def _share(probabilities: Mapping[str, float], code: str, codes: Sequence[str]) -> float:
    """Return the probability of a language divided by that of all the given languages."""
    total = sum(probabilities.get(base, 0.0) for base in {base_of(language) for language in codes})
    return probabilities.get(base_of(code), 0.0) / total if total else 0.0
