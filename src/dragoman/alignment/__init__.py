"""Word alignment, by attention and by lexicons."""
