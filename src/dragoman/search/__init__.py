"""Search for the most probable outputs of a model, one position at a time; inputs and outputs are token ids."""
