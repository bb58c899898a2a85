"""What turns gradients into updates. To add an optimizer: a file beside this one, and a line in `table`."""
