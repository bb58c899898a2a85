"""Search over a model that gives one step at a time; token ids only."""
