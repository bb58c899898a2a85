"""The version of the package, in a module of its own to avoid an import cycle with `dragoman/__init__.py`."""

__version__ = "0.1.0"
