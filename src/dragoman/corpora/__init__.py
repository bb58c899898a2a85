"""Corpora that Dragoman can download or generate, divided into training, validation and test data, with licences.

Example:
    >>> from pathlib import Path
    >>> files = fetch("copy", Path("corpora"), training_pairs=100)
    >>> files.pairs["train"]
    100
"""

from dragoman.corpora.catalogue import fetch, fetch_pictures, list_corpora, source_named
from dragoman.corpora.folder import CorpusFiles
from dragoman.corpora.picture_folder import PictureFiles
from dragoman.corpora.source import CorpusSource, OnProgress

__all__ = [
    "CorpusFiles",
    "CorpusSource",
    "OnProgress",
    "PictureFiles",
    "fetch",
    "fetch_pictures",
    "list_corpora",
    "source_named",
]
