"""Sizes that all variants share."""

# Subwords of the vocabulary.
V = 17
# The longest source or target that the properties try, and that any test tries: positions must be known so far.
MAXIMUM = 12
LONGEST = 300
