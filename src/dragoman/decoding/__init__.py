"""Search over a model that offers one step at a time, and the facade that turns text into text."""
