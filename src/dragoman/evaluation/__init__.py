"""Scores of translations: strings and numbers only, no tensors."""
