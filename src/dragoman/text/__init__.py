"""Conversion of text to token ids and back: lines, words, segments, subwords."""
