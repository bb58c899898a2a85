"""Train, run and look inside attention-based sequence-to-sequence models."""

__version__ = "0.1.0"
