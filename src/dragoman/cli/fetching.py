"""Fetching of corpora with a status line."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.corpora import CorpusFiles, OnProgress, PictureFiles

Files = TypeVar("Files", "CorpusFiles", "PictureFiles")

# Directory in which corpora are made by default.
CORPORA = Path("corpora")


def with_status(fetch: "Callable[[OnProgress], Files]") -> "Files":
    """Fetch a corpus; on a terminal, standard error shows the present stage."""
    from rich.console import Console

    with Console(stderr=True).status("") as status:
        return fetch(status.update)


def described(files: "CorpusFiles | PictureFiles") -> str:
    """Return the directory of a corpus, and the number of examples in each part, as one line."""
    from dragoman.corpora import PictureFiles

    if isinstance(files, PictureFiles):
        parts = [f"{part}/ {count:,} pictures" for part, count in files.pictures.items()]
    else:
        parts = [f"{part}.tsv {count:,} pairs" for part, count in files.pairs.items()]
    there = " (already there)" if files.already_there else ""
    return f"{printable(files.directory)}: {', '.join(parts)}{there}"
