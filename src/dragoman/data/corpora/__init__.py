"""Real corpora to begin with: listed, fetched, split by whole documents, each with its licence."""

from dragoman.data.corpora.catalogue import CorpusSource, fetch, list_corpora
from dragoman.data.corpora.folder import CorpusFiles

__all__ = ["CorpusFiles", "CorpusSource", "fetch", "list_corpora"]
