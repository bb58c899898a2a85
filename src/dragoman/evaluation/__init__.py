"""Metrics of outputs compared with references, and significance tests; computed from strings and numbers only."""
