"""Variants of a model, compared honestly: the same data, tokenizer, loop, search and budget."""
