"""Training: loss, learning-rate schedule, optimizers, checkpoints and the training loop."""
