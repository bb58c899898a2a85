"""A corpus of a model's own translations, for a smaller model to learn from.

What a teacher says is more regular than what people wrote, and easier to learn (Kim and Rush, "Sequence-level
knowledge distillation", 2016).
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
    """Return the sources of pairs, each once, without those that have no text."""
    return list(dict.fromkeys(pair.source for pair in pairs if pair.source.strip()))


def distill(
    teacher: Translator,
    sources: Sequence[str],
    *,
    search: SearchConfig = DEFAULT_SEARCH,
    on_progress: Callable[[int], None] | None = None,
) -> list[Pair]:
    """Translate every source; leave out those whose translation was cut short, split or is empty.

    `on_progress` is called after each source with the number of sources done.
    """
    pairs = []
    for done, (source, found) in enumerate(
        zip(sources, teacher.translate_stream(sources, search=search), strict=True), 1
    ):
        if found.text and not found.truncated and not found.copied and found.pieces == 1:
            pairs.append(Pair(source, found.text))
        if on_progress is not None:
            on_progress(done)
    return pairs


def check_name(out: Path) -> None:
    """Raise SettingsError for a file whose name does not say that it holds JSON lines: readers go by the name."""
    if out.suffix != ".jsonl":
        raise SettingsError(f"{out}: give a name that ends in .jsonl")


def write_pairs(out: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as JSON lines, which can hold any text.

    Raises SettingsError when the name does not end in .jsonl.
    """
    check_name(out)
    lines = [json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) + "\n" for pair in pairs]
    write_atomically(out, "".join(lines).encode())
