"""The routes of all interfaces of the server."""

from __future__ import annotations

from starlette.routing import BaseRoute

from dragoman.serving.context import ServerContext
from dragoman.serving.interfaces import deepl, libretranslate, own
from dragoman.serving.page import static_files


def interface_routes(context: ServerContext) -> list[BaseRoute]:
    """Return the routes of the interfaces, in the order in which they are tried."""
    return [
        *own.routes(context),
        *deepl.routes(context),
        *static_files.routes(context),
        *libretranslate.routes(context),
    ]
