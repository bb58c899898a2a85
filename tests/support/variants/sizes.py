"""Sizes of all variants."""

# Number of subwords in the vocabulary.
V = 17
# Longest source or target in property tests, and in any test; tables of positions must have this length.
MAXIMUM = 12
LONGEST = 300
