"""Comparison of model variants with the same data, tokenizer, training loop, search and budget."""
