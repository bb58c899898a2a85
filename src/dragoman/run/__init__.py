"""Training of a translation model from corpora to a model directory, as `dragoman train` does it."""

from dragoman.run.train import train

__all__ = ["train"]
