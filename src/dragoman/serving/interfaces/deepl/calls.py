"""`Call`: a request to DeepL's interface, with its parameters and the key of its client."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from starlette.requests import Request

from dragoman.serving.interfaces.parameters import Parameters, read_parameters

_SCHEME = "deepl-auth-key "


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request to the interface.

    Attributes:
        request: the request.
        parameters: its parameters.
        key: the key of the client, from the header Authorization or the parameter auth_key; None if there is none.
    """

    request: Request
    parameters: Parameters
    key: str | None

    @property
    def owner(self) -> str:
        """Digest of the key: who owns what the request creates."""
        return hashlib.sha256((self.key or "").encode()).hexdigest()


async def read_call(request: Request) -> Call:
    """Return a request with what it contains.

    Raises:
        RequestError: as `read_parameters`.
    """
    parameters = await read_parameters(request)
    authorization = request.headers.get("Authorization", "")
    if authorization.lower().startswith(_SCHEME):
        key = authorization[len(_SCHEME) :].strip() or None
    else:
        key = parameters.optional_text("auth_key")
    return Call(request=request, parameters=parameters, key=key)
