"""The limits of a server, all of which are on by default."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a server.

    Attributes:
        characters: Characters of the texts of a request.
        texts: Texts of a request.
        body_bytes: Bytes of the body of a request; of a document, see `document_bytes`.
        document_bytes: Bytes of the body of a request that uploads a document.
        request_seconds: Seconds in which a request must be answered.
        body_seconds: Seconds in which the header and the body of a request must arrive.
        requests: Requests that are answered at the same time.
        queue: Requests that wait for a place; further ones are refused at once, with status 503.
        requests_per_minute: Requests of a key or an address in a minute, in a moving window.
        characters_per_minute: Characters of a key or an address in a minute, in a moving window.
        alternatives: Alternatives of a translation.
    """

    characters: int = 50_000
    texts: int = 100
    body_bytes: int = 1 << 20
    document_bytes: int = 10 << 20
    request_seconds: float = 60.0
    body_seconds: float = 10.0
    requests: int = 64
    queue: int = 64
    requests_per_minute: int = 1200
    characters_per_minute: int = 1_000_000
    alternatives: int = 5

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name in ("queue", "alternatives") else 1
            if not least <= value < math.inf:
                raise SettingsError(f"the limit {field.name} must be at least {least}, not {value}")
