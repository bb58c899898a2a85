"""The routes of all interfaces of the server."""

from __future__ import annotations

from starlette.routing import BaseRoute

from dragoman.serving.context import ServerContext


def interface_routes(_context: ServerContext) -> list[BaseRoute]:
    """Return the routes of the interfaces, in the order in which they are tried."""
    return []
