"""What can be trained: one file for each task."""
