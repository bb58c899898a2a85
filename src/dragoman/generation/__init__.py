"""Generation and evaluation of text with language models."""
