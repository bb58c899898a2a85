"""What is said of a corpus before it is fetched, and while it is."""

from collections.abc import Callable
from dataclasses import dataclass

# Called with what is being done now, each time that changes: "Reading en-de from ...".
OnProgress = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class CorpusSource:
    """What `dragoman corpus list` says about a corpus.

    Attributes:
        attribution: who made the texts.
        languages: the codes that a pair SOURCE-TARGET may be made of, in either direction; none for a corpus that has
            no languages to choose from.
        download_bytes: what fetching it for the first time downloads; further language pairs download nothing.
        training_pairs: how many pairs are made to train on unless another number is asked for; 0 for a corpus that has
            as many as it has.
    """

    name: str
    description: str
    licence: str
    attribution: str
    languages: tuple[str, ...] = ()
    download_bytes: int = 0
    training_pairs: int = 0


def no_progress(message: str) -> None:
    """Report nothing."""
