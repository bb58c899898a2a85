"""Representation of text by vectors: `Embedder`, for models of every kind."""
