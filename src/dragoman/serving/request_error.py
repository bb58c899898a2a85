"""`RequestError`: a request that cannot be answered, and its HTTP status."""

from __future__ import annotations

import math


class RequestError(Exception):
    """A request that cannot be answered.

    Each interface reports it in its own form, such as {"error": message} or {"message": message}.

    Args:
        status: the HTTP status, 400 to 599.
        message: what was wrong, and what to do.
        retry_after: seconds after which the client may try again; sent as Retry-After. None to send no such header.
    """

    def __init__(self, status: int, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        assert 400 <= status < 600, status
        self.status = status
        self.message = message
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        """The header Retry-After, in whole seconds, at least 1; no header if there is nothing to wait for."""
        return {} if self.retry_after is None else {"Retry-After": str(max(1, math.ceil(self.retry_after)))}
