"""The interface of LibreTranslate, for programs that speak to it."""

from dragoman.serving.interfaces.libretranslate.endpoints import routes

__all__ = ["routes"]
