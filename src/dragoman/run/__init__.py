"""From corpora to a model directory: what `dragoman train` does, in one call."""

from dragoman.run.train import train

__all__ = ["train"]
