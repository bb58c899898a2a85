"""Sequence-level knowledge distillation: a corpus of a model's own translations, to train a smaller model on.

A teacher's outputs are more regular than human translations, and easier to learn (Kim and Rush, "Sequence-Level
Knowledge Distillation", 2016).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dragoman.data.readers import Pair
from dragoman.errors import SettingsError
from dragoman.files import write_atomically
from dragoman.search.config import DEFAULT_SEARCH, SearchConfig
from dragoman.translation.translator import Translator


def distinct_sources(pairs: Iterable[Pair]) -> list[str]:
    """Return the distinct sources of pairs in their first order, without those that have no text."""
    return list(dict.fromkeys(pair.source for pair in pairs if pair.source.strip()))


def distill(
    teacher: Translator,
    sources: Sequence[str],
    *,
    search: SearchConfig = DEFAULT_SEARCH,
    on_progress: Callable[[int], None] | None = None,
) -> list[Pair]:
    """Translate sources with a teacher, and keep the complete translations.

    Sources whose translation was truncated or empty, and those that were split or copied, are left out.

    Args:
        teacher: the model or ensemble to learn from.
        sources: the lines to translate.
        search: settings of the search.
        on_progress: called after each source with the number of sources done.

    Returns:
        Pairs of a source and the teacher's translation, in order.

    Raises:
        FloatingPointError: if the teacher computes probabilities that are not finite.

    Example:
        >>> from dragoman import Translator
        >>> from dragoman.translation.distillation import distill
        >>> pairs = distill(Translator.load("models/mine"), ["The door is open."])
        >>> len(pairs) <= 1
        True
    """
    pairs = []
    translations = teacher.translate_stream(sources, search=search)
    for done, (source, translation) in enumerate(zip(sources, translations, strict=True), 1):
        complete = translation.text and not translation.truncated
        if complete and not translation.copied and translation.segments == 1:
            pairs.append(Pair(source, translation.text))
        if on_progress is not None:
            on_progress(done)
    return pairs


def check_name(out: Path) -> None:
    """Raise SettingsError if the file name does not end in .jsonl, by which readers recognise the format."""
    if out.suffix != ".jsonl":
        raise SettingsError(f"{out}: use a name that ends in .jsonl")


def write_pairs(out: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as JSON lines, which can represent any text.

    Raises:
        SettingsError: if the file name does not end in .jsonl.
    """
    check_name(out)
    lines = [json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) + "\n" for pair in pairs]
    write_atomically(out, "".join(lines).encode())
