"""The version of the package. A file of its own, so that what the package exports can name it without a circle."""

__version__ = "0.1.0"
