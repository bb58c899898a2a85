"""Description of a corpus, and the type of progress callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

# Called at the beginning of each stage with its description, such as "Reading en-de from ...".
OnProgress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CorpusSource:
    """Description of a corpus in `dragoman corpus list`.

    Attributes:
        name: name of the corpus.
        description: content and size.
        licence: licence of the texts.
        attribution: authors of the texts.
        languages: language codes of which a pair SOURCE-TARGET may consist, in either direction; empty if the corpus
            has no choice of languages.
        download_bytes: size of the first download; other language pairs need no further download.
        training_pairs: default number of training pairs of a generated corpus; 0 for other corpora.
        kind: what the corpus consists of: pairs of lines, or pictures with labels.
    """

    name: str
    description: str
    licence: str
    attribution: str
    languages: tuple[str, ...] = ()
    download_bytes: int = 0
    training_pairs: int = 0
    kind: Literal["pairs", "pictures"] = "pairs"


def no_progress(message: str) -> None:
    """Ignore the message; the default progress callback."""
