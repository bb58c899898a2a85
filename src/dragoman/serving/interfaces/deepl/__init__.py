"""The v2 interface of DeepL, for programs that speak to it."""

from dragoman.serving.interfaces.deepl.endpoints import routes

__all__ = ["routes"]
