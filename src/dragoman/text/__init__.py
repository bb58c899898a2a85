"""Text to token ids and back: lines, words, segments, subwords."""
