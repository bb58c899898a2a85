"""The facade that turns text into text."""
