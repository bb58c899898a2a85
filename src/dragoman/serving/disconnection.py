"""Work for a request that ends when its client goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

T = TypeVar("T")


async def until_disconnected(request: Request, awaitable: Awaitable[T]) -> T:
    """Return the result of `awaitable`, which is cancelled as soon as the client goes away or the caller is cancelled.

    Args:
        request: the request, whose body has been read: what is left of it is discarded.
        awaitable: the work.

    Raises:
        ClientDisconnect: if the client went away first. A response to it is discarded.
    """
    work = asyncio.ensure_future(awaitable)
    watch = asyncio.ensure_future(_disconnection(request))
    try:
        await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            watch.result()
            raise ClientDisconnect
    finally:
        work.cancel()
        watch.cancel()
        # The places of cancelled work are free when this function returns.
        await asyncio.gather(work, watch, return_exceptions=True)
    return work.result()


async def _disconnection(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
