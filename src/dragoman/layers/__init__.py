"""The parts of the models: positions, normalisation, feed-forward, recurrence, convolution, and Transformer layers."""
