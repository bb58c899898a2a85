"""Parameters of requests to DeepL's interface: JSON, forms and the query."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from dragoman.errors import quoted
from dragoman.files import parse_json_object
from dragoman.serving.request_error import RequestError
from dragoman.text.characters import replace_surrogates

_MAX_FIELDS = 1000
_SCHEME = "deepl-auth-key "
_BOOLEANS = {"1": True, "true": True, "0": False, "false": False}


@dataclass(frozen=True, kw_only=True)
class UploadedFile:
    """A file in a form.

    Attributes:
        name: its name, as the client gave it.
        content: its bytes.
    """

    name: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a request.

    Attributes:
        values: the values of each parameter; of one that is not a list, one value.
        key: the key of the client; None if the request has none.
        file: the file of the form; None if there is none.
    """

    values: Mapping[str, tuple[str, ...]]
    key: str | None = None
    file: UploadedFile | None = None

    @property
    def owner(self) -> str:
        """Digest of the key: who owns what the request creates."""
        return hashlib.sha256((self.key or "").encode()).hexdigest()

    def optional(self, name: str) -> str | None:
        """Return the value of a parameter; None if it is missing or empty.

        Raises:
            RequestError: with status 400 if it is given twice with different values.
        """
        values = set(self.values.get(name, ()))
        if len(values) > 1:
            raise RequestError(400, f"the parameter {name} is given more than once")
        return next(iter(values), "") or None

    def required(self, name: str) -> str:
        """Return the value of a parameter.

        Raises:
            RequestError: with status 400 if it is missing or empty; as `optional`.
        """
        value = self.optional(name)
        if value is None:
            raise RequestError(400, f"the parameter {name} is missing")
        return value

    def choice(self, name: str, *choices: str) -> str:
        """Return the value of a parameter, which is the first choice if it is missing.

        Raises:
            RequestError: with status 400 if it is none of the choices; as `optional`.
        """
        value = self.optional(name) or choices[0]
        if value not in choices:
            raise RequestError(400, f"{name} must be one of {', '.join(choices)}, not {quoted(value)}")
        return value

    def boolean(self, name: str) -> bool:
        """Return the value of a parameter that is 0, 1, true or false; False if it is missing.

        Raises:
            RequestError: with status 400 for another value; as `optional`.
        """
        return _BOOLEANS[self.choice(name, "0", "1", "false", "true")]


async def read_parameters(request: Request, max_bytes: int) -> Parameters:
    """Return the parameters of a request; those of the body replace those of the query.

    Args:
        request: the request.
        max_bytes: largest size of the body.

    Raises:
        RequestError: with status 400 for a body that is not JSON or a form as its Content-Type announces, 413 for a
            body that is too large.
    """
    values = _collected(request.query_params.multi_items())
    content_type = request.headers.get("Content-Type", "").split(";")[0].strip().lower()
    file = None
    if content_type == "multipart/form-data":
        fields, file = await _multipart(request, max_bytes)
        values |= fields
    else:
        body = b"".join([chunk async for chunk in _limited(request, max_bytes)])
        if not body:
            pass
        elif content_type == "application/json":
            values |= _json(body)
        elif content_type == "application/x-www-form-urlencoded":
            values |= _form(body)
        else:
            raise RequestError(
                400,
                "the Content-Type must be application/json, application/x-www-form-urlencoded or multipart/form-data",
            )
    return Parameters(values=values, key=_key(request, values), file=file)


def _key(request: Request, values: Mapping[str, tuple[str, ...]]) -> str | None:
    authorization = request.headers.get("Authorization", "")
    if authorization.lower().startswith(_SCHEME):
        return authorization[len(_SCHEME) :].strip() or None
    return next(iter(values.get("auth_key", ())), None) or None


async def _limited(request: Request, max_bytes: int) -> AsyncGenerator[bytes, None]:
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise RequestError(413, f"the body of the request has more than {max_bytes:,} bytes")
        yield chunk


async def _multipart(request: Request, max_bytes: int) -> tuple[dict[str, tuple[str, ...]], UploadedFile | None]:
    parser = MultiPartParser(
        request.headers, _limited(request, max_bytes), max_files=1, max_fields=_MAX_FIELDS, max_part_size=max_bytes
    )
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise RequestError(400, f"the form is malformed: {error.message}") from error
    except (ValueError, LookupError) as error:
        raise RequestError(400, "the form is malformed") from error
    try:
        uploads = [value for value in form.values() if isinstance(value, UploadFile)]
        files = [
            UploadedFile(name=replace_surrogates(upload.filename or ""), content=await upload.read())
            for upload in uploads
        ]
    finally:
        await form.close()
    texts = _collected([(name, value) for name, value in form.multi_items() if isinstance(value, str)])
    return texts, next(iter(files), None)


def _form(body: bytes) -> dict[str, tuple[str, ...]]:
    try:
        return _collected(
            parse_qsl(
                body.decode(errors="replace"), keep_blank_values=True, errors="replace", max_num_fields=_MAX_FIELDS
            )
        )
    except ValueError as error:
        raise RequestError(400, f"the form has more than {_MAX_FIELDS:,} fields") from error


def _collected(items: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the values of each name. Some programs write text[] for a parameter that is a list."""
    values: dict[str, tuple[str, ...]] = {}
    for name, value in items:
        name = name.removesuffix("[]")
        values[name] = (*values.get(name, ()), replace_surrogates(value))
    return values


def _json(body: bytes) -> dict[str, tuple[str, ...]]:
    try:
        members = parse_json_object(body)
    except ValueError as error:
        raise RequestError(400, f"the body cannot be read as JSON: {error}") from error
    return {name: _strings(name, value) for name, value in members.items() if value is not None}


def _strings(name: str, value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(member, str | int | float) for member in values):
        raise RequestError(400, f"{quoted(name)} must be a string, a number, a boolean, or a list of them")
    texts = (str(member).lower() if isinstance(member, bool) else str(member) for member in values)
    return tuple(map(replace_surrogates, texts))
