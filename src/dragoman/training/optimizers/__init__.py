"""Optimizers. To add one, write a module in this package and add a line to `table.OPTIMIZERS`."""
