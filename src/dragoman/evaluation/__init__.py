"""Metrics of outputs compared with references, significance tests, and distances between sets of pictures.

Computed from strings and numbers only.
"""
