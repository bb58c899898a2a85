"""Dragoman's own interface, below /v1."""

from starlette.routing import BaseRoute

from dragoman.serving.context import ServerContext
from dragoman.serving.interfaces.own import attention, endpoints

__all__ = ["routes"]


def routes(context: ServerContext) -> list[BaseRoute]:
    """Return the routes below /v1, and /openapi.json."""
    return [*endpoints.routes(context), *attention.routes(context)]
