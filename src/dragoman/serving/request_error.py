"""`RequestError`: a request that cannot be answered, and its HTTP status."""

from __future__ import annotations


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
