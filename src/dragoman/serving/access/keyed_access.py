"""`KeyedAccess`: who may use the server, and how much."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request

from dragoman.serving.access.addresses import client_of
from dragoman.serving.access.keys import Key, KeyRing, read_keys
from dragoman.serving.access.monthly_usage import MonthlyUsage
from dragoman.serving.access.moving_window import MovingWindows
from dragoman.serving.context import Usage
from dragoman.serving.limits import Limits
from dragoman.serving.receipts import Receipt
from dragoman.serving.request_error import RequestError


class KeyedAccess:
    """Admits requests by their key, or by their address if the server has no keys; implements `Access`.

    Args:
        limits: the limits of an address, and of a key that has none of its own.
        usage: characters that each key has used in the month.
        keys: file of keys, see `read_keys`; None to admit requests without a key.
        on_admitted: called with the characters of each request that is admitted.

    Raises:
        SettingsError: if the file of keys cannot be read or is not valid.
    """

    def __init__(
        self,
        limits: Limits,
        usage: MonthlyUsage,
        *,
        keys: Path | None = None,
        on_admitted: Callable[[int], None],
    ) -> None:
        self._limits = limits
        self._usage = usage
        self._file = keys
        self._ring: KeyRing | None = None
        self._windows = MovingWindows()
        # Characters of requests that are being answered, by the name of their key.
        self._reserved: Counter[str] = Counter()
        self._on_admitted = on_admitted
        self.reload()

    @property
    def keys_required(self) -> bool:
        """See `Access`."""
        return self._ring is not None

    def reload(self) -> None:
        """Read the file of keys anew; if that fails, the former keys stay valid.

        Raises:
            SettingsError: if the file cannot be read or is not valid.
        """
        if self._file is not None:
            self._ring = read_keys(self._file)

    def admit(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        most = self._limits.characters
        if characters > most:
            raise RequestError(
                413, f"the request has {characters:,} characters, more than the {most:,} that are accepted"
            )
        return self._admit(request, key, characters, is_document=False)

    def admit_document(self, request: Request, key: str | None, characters: int) -> Receipt:
        """See `Access`."""
        return self._admit(request, key, characters, is_document=True)

    def _admit(self, request: Request, key: str | None, characters: int, *, is_document: bool) -> Receipt:
        limits = self._limits
        if self._ring is None:
            most = limits.characters_per_minute
            counted = min(characters, most) if is_document else characters
            self._count(_address(request), counted, limits.requests_per_minute, most)
            self._on_admitted(characters)
            return Receipt()
        known = self._ring.find(key) if key else None
        if known is None:
            # Guesses are limited too.
            self._count(_address(request), 0, limits.requests_per_minute, limits.characters_per_minute)
            raise RequestError(403, "the API key is unknown" if key else "an API key is required")
        # What costs nothing is admitted: /v2/usage tells how much is used.
        if characters and known.quota is not None and self._used(known.name) + characters > known.quota:
            raise RequestError(456, f"the quota of {known.quota:,} characters in a month is exhausted")
        most = known.characters_per_minute or limits.characters_per_minute
        counted = min(characters, most) if is_document else characters
        self._count(f"key {known.name}", counted, known.requests_per_minute or limits.requests_per_minute, most)
        self._on_admitted(characters)
        return self._reserve(known, characters)

    def usage(self, key: str | None) -> Usage | None:
        """See `Access`."""
        known = self._ring.find(key) if self._ring is not None and key else None
        return None if known is None else Usage(characters=self._used(known.name), quota=known.quota)

    def _used(self, name: str) -> int:
        return self._usage.characters(name) + self._reserved[name]

    def _reserve(self, key: Key, characters: int) -> Receipt:
        """Reserve characters of the quota of a key, so that another request cannot use them at the same time."""
        if not characters:
            return Receipt()
        name = key.name
        self._reserved[name] += characters

        def end(charged: bool) -> None:
            self._reserved[name] -= characters
            if charged:
                self._usage.add(name, characters)

        return Receipt(end)

    def _count(self, client: str, characters: int, requests_per_minute: int, characters_per_minute: int) -> None:
        wait = self._windows.admit(
            client, characters, max_requests=requests_per_minute, max_characters=characters_per_minute
        )
        if wait == math.inf:
            raise RequestError(413, f"at most {characters_per_minute:,} characters are accepted in a minute")
        if wait:
            raise RequestError(
                429,
                f"at most {requests_per_minute:,} requests and {characters_per_minute:,} characters are accepted in a "
                f"minute: try again in {math.ceil(wait)} s",
                retry_after=wait,
            )


def _address(request: Request) -> str:
    return client_of(request.client.host if request.client is not None else "")
