"""Loss, schedule, checkpoints and the training loop."""
