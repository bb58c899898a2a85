"""`Receipt`: the characters that a request may use."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType


class Receipt:
    """Characters that are reserved for a request until they are charged or released.

    As a context manager, it charges them if the block ends, and releases them if it raises: a request that fails costs
    no quota.

        with access.admit(request, key, len(text)):
            translated = await service.translate([text], options)

    Args:
        on_end: called once, with True if the characters are charged, and False if they are released. None if nothing
            is reserved.
    """

    def __init__(self, on_end: Callable[[bool], None] | None = None) -> None:
        self._on_end = on_end

    def charge(self) -> None:
        """Charge the characters, unless they are charged or released already."""
        self._end(True)

    def release(self) -> None:
        """Release the characters, unless they are charged or released already."""
        self._end(False)

    def __enter__(self) -> Receipt:
        """Return the receipt."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Charge the characters, or release them after an exception."""
        self._end(kind is None)

    def _end(self, charged: bool) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(charged)
