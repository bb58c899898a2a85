"""Texts as sentences that are translated: splitting, languages, pivoting, the guard."""
