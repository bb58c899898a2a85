"""Corpora to begin with: listed, fetched or made, with what is held out unseen in training, each with its licence."""

from dragoman.corpora.catalogue import fetch, list_corpora
from dragoman.corpora.folder import CorpusFiles
from dragoman.corpora.source import CorpusSource, OnProgress

__all__ = ["CorpusFiles", "CorpusSource", "OnProgress", "fetch", "list_corpora"]
