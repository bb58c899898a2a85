"""The guard: outputs that are probably not translations, such as those of some single words.

A model that was trained on sentences can repeat itself, or write a sentence that it remembers, when it translates a
single word. Such an output is much longer than its source, repeats itself more than its source, or is improbable. It
is replaced by the output of greedy search, which tends to be shorter; if the guard rejects that too, by the source.
The thresholds are far from what translations have, since a wrong rejection costs a good translation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from dragoman.serving.lines import LineOptions, LineTranslator, Pair
from dragoman.serving.texts.translated import Guarded
from dragoman.text.characters import WITHOUT_SPACES
from dragoman.translation.results import Alternative, Translation

Reason = Literal["", "empty", "length", "repetition", "score"]

# Translations have at most about twice the bytes (in UTF-8) of their source, and single words up to three times:
# "ID" is "Identifikationsnummer". The offsets permit that for short words.
LONGEST_BYTES_RATIO, LONGEST_BYTES_OFFSET = 4, 32
# A word can become a few ("AI": "künstliche Intelligenz"), a long compound about five.
LONGEST_WORDS_RATIO, LONGEST_WORDS_OFFSET = 3, 5
# In scripts without spaces, a word has 1 to about 4 characters, and foreign words more. A source has at most as many
# words as characters, an output at least a fourth.
CHARACTERS_OF_WORD = 4
# A translation of less than a tenth of the bytes leaves something out. Short sources may have symbols as translations.
SHORTEST_BYTES_RATIO, SHORTEST_CHECKED_BYTES = 10, 100
# A sequence of 1 to 4 words that occurs 3 times in a row, or of 1 to 8 characters, not all digits, 6 times in a row. In
# a source, a sequence of words that occurs twice is enough: "no, no" can become "nein, nein, nein".
REPEATED_WORDS, WORD_REPETITIONS, SOURCE_REPETITIONS = 4, 3, 2
_REPEATED_CHARACTERS = re.compile(r"(.{1,8}?)\1{5,}", re.DOTALL)
# Natural logarithm of the probability per byte of the output. A token has about 4 bytes, so that is e^-6 per token: as
# probable as one of 400 equal choices, at every token. The end of the output counts as one token more:
# short outputs are the least certain ones, since a single word has many translations.
LOWEST_SCORE, TOKEN_BYTES = -1.5, 4

_WORD = re.compile(rf"{WITHOUT_SPACES.pattern}|[^\W_]+")


def reason_to_reject(source: str, output: Alternative | Translation) -> Reason:
    """Return why an output is probably not a translation of its source; "" if nothing is wrong with it."""
    text = output.text
    if not text.strip():
        return "empty"
    source_bytes, output_bytes = len(source.encode()), len(text.encode("utf-8", "replace"))
    source_words, output_words = _WORD.findall(source), _WORD.findall(text)
    if (
        output_bytes > LONGEST_BYTES_RATIO * source_bytes + LONGEST_BYTES_OFFSET
        or _fewest_words(output_words) > LONGEST_WORDS_RATIO * len(source_words) + LONGEST_WORDS_OFFSET
        or source_bytes > max(SHORTEST_CHECKED_BYTES, SHORTEST_BYTES_RATIO * output_bytes)
    ):
        return "length"
    # A source that repeats itself may have a translation that does.
    if _repeats(output_words, text, WORD_REPETITIONS) and not _repeats(source_words, source, SOURCE_REPETITIONS):
        return "repetition"
    if not math.isfinite(output.log_probability) or output.log_probability < LOWEST_SCORE * (
        output_bytes + TOKEN_BYTES
    ):
        return "score"
    return ""


def _fewest_words(words: Sequence[str]) -> int:
    """Return the number of words, of which those of scripts without spaces are single characters."""
    characters = sum(WITHOUT_SPACES.match(word) is not None for word in words)
    return len(words) - characters + math.ceil(characters / CHARACTERS_OF_WORD)


def _repeats(words: Sequence[str], text: str, repetitions: int) -> bool:
    folded = [word.casefold() for word in words]
    for length in range(1, REPEATED_WORDS + 1):
        equal = 0
        for index in range(length, len(folded)):
            equal = equal + 1 if folded[index] == folded[index - length] else 0
            # Digits repeat in numbers.
            if equal >= length * (repetitions - 1) and any(map(str.isalpha, folded[index])):
                return True
    return any(not match[1].isdigit() and not match[1].isspace() for match in _REPEATED_CHARACTERS.finditer(text))


async def translate_guarded(
    lines: LineTranslator, pair: Pair, sentence: str, options: LineOptions
) -> tuple[Translation, Guarded]:
    """Return the translation of a sentence, and what the guard did.

    Alternatives that the guard rejects are left out. If the result is the source, its log-probability and score are 0.

    Raises:
        RequestError: as `LineTranslator.translate_line`.
    """
    translation = await lines.translate_line(pair, sentence, options)
    if not reason_to_reject(sentence, translation):
        return _without_rejected(sentence, translation), ""
    if options.beam > 1:
        greedy = replace(options, beam=1, n_best=1)
        translation = await lines.translate_line(pair, sentence, greedy)
        if not reason_to_reject(sentence, translation):
            # Confidence is fitted to outputs that the guard need not replace.
            return replace(translation, confidence=None), "greedy"
    return _copied(sentence), "source"


def _without_rejected(sentence: str, translation: Translation) -> Translation:
    kept = tuple(output for output in translation.alternatives if not reason_to_reject(sentence, output))
    return replace(translation, alternatives=kept)


def _copied(sentence: str) -> Translation:
    return Translation(
        text=sentence,
        log_probability=0.0,
        score=0.0,
        alternatives=(Alternative(text=sentence, log_probability=0.0, score=0.0),),
        segments=0,
        cut=False,
        truncated=False,
        invalid_utf8=False,
        copied=len(sentence),
    )
