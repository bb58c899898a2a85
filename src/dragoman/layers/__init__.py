"""The parts of a Transformer layer: positions, normalisation, feed-forward, and the two layers."""
