"""Parameters of requests: from the query string and from a body of JSON, a form or a form of several parts."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from dragoman.errors import quoted
from dragoman.files import parse_json_object
from dragoman.serving.request_error import RequestError

# Largest number of parameters in a form or a query string.
MAX_FIELDS = 1000
JSON = b"application/json"
_UTF_8 = (b"utf-8", b"utf8", b"us-ascii", b"ascii")
_WHOLE = re.compile("-?[0-9]{1,9}")
_FORM = b"application/x-www-form-urlencoded"
_MULTIPART = b"multipart/form-data"
# Characters of a boundary, RFC 2046, section 5.1.1.
_BOUNDARY = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ'()+_,-./:=? ")


@dataclass(frozen=True, kw_only=True)
class Upload:
    """An uploaded file.

    Attributes:
        name: the file name that the client gave: any text.
        content: the file.
    """

    name: str
    content: bytes


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """Parameters of a request, see `read_parameters`.

    A parameter that is null in JSON, or an empty string, counts as missing. All methods raise a RequestError with
    status 400 if a value has the wrong type, or a text contains NUL or half of a surrogate pair; those that return one
    value raise it for a parameter that is given more than once, too.

    Attributes:
        values: the values of each parameter, in the order of the request. Those of JSON have any type of JSON.
        uploads: the uploaded files by the name of their parameter.
    """

    values: Mapping[str, Sequence[object]] = field(default_factory=dict)
    uploads: Mapping[str, Upload] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return a text. If it is missing, raise a RequestError with status 400."""
        text = self.optional_text(name)
        if text is None:
            raise _missing(name)
        return text

    def optional_text(self, name: str) -> str | None:
        """Return a text; None if it is missing."""
        value = self._single(name)
        return None if value is None else _checked_text(value, name)

    def texts(self, name: str) -> list[str]:
        """Return the texts of a parameter that is a text, a list of texts in JSON, or given more than once.

        The texts may be empty. The list is empty if the parameter is missing.
        """
        values = self.values.get(name, ())
        items = values[0] if len(values) == 1 and isinstance(values[0], list) else values
        return [_checked_text(item, name) for item in items]

    def text_or_texts(self, name: str) -> str | list[str]:
        """Return a text, or the list of texts if it is a list in JSON or is given more than once.

        The texts of a list may be empty. If the parameter is missing or the list is empty, raise a RequestError with
        status 400.
        """
        values = self.values.get(name, ())
        if len(values) == 1 and isinstance(values[0], str):
            return self.text(name)
        if texts := self.texts(name):
            return texts
        raise _missing(name)

    def choice(self, name: str, *choices: str) -> str:
        """Return one of the choices; the first if the parameter is missing. Numbers and booleans of JSON are texts."""
        value = self._single(name)
        if value is None:
            return choices[0]
        text = str(value).lower() if isinstance(value, bool | int) else _checked_text(value, name)
        if text not in choices:
            raise RequestError(400, f"{name} must be one of {', '.join(choices)}, not {quoted(text)}")
        return text

    def boolean(self, name: str) -> bool:
        """Return whether a parameter is 1 or true, rather than 0 or false; False if it is missing."""
        return self.choice(name, "0", "1", "false", "true") in ("1", "true")

    def integer(self, name: str, *, default: int, least: int, largest: int) -> int:
        """Return a whole number, in JSON also as text or as 3.0; `default` if the parameter is missing.

        A number less than `least` counts as `least`.
        """
        value = self._single(name)
        if value is None:
            return default
        if (isinstance(value, str) and _WHOLE.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
            value = int(value)
        # True and False are integers in Python.
        if type(value) is not int or value > largest:
            raise RequestError(400, f"{name} must be a whole number from {least} to {largest}")
        return max(least, value)

    def upload(self, name: str) -> Upload:
        """Return an uploaded file. If it is missing, raise a RequestError with status 400."""
        if name not in self.uploads:
            raise RequestError(400, f"the file is missing: send {name} as {_MULTIPART.decode()}, with a file name")
        return self.uploads[name]

    def _single(self, name: str) -> object:
        values = self.values.get(name, ())
        if len(values) > 1:
            raise RequestError(400, f"{name} is given {len(values)} times: give it once")
        return None if not values or values[0] == "" else values[0]


async def read_parameters(request: Request) -> Parameters:
    """Return the parameters of a request; those of the body replace those of the query string.

    In a form and in the query string, name[] is the same as name: some programs mark lists so. A body without a byte
    needs no type. The size of the body is limited by `BodyLimits`.

    Raises:
        RequestError: with status 400 if the body is not of its type or not in UTF-8, repeats a key of a JSON object, is
            nested too deeply, or has too many fields; 415 if its type is not JSON or a form.
    """
    kind, options = content_type(request)
    values = _by_name(_fields(request.scope["query_string"], "the query string"))
    uploads: dict[str, Upload] = {}
    if kind == _MULTIPART:
        form = await _read_form(request, options.get(b"boundary", b""))
        try:
            fields, uploads = await _parts(form)
        finally:
            await form.close()
        values |= _by_name(fields)
    elif body := await request.body():
        if kind == _FORM:
            values |= _by_name(_fields(body, "the form"))
        elif kind == JSON:
            try:
                members = parse_json_object(body.removeprefix(codecs.BOM_UTF8))
                values |= {name: [value] for name, value in members.items() if value is not None}
            except ValueError as error:
                raise RequestError(400, f"the body cannot be read as JSON: {error}") from error
        else:
            types = ", ".join(supported.decode() for supported in (JSON, _FORM, _MULTIPART))
            raise RequestError(415, f"the type of the body is not supported: set Content-Type to one of {types}")
    return Parameters(values=values, uploads=uploads)


def content_type(request: Request) -> tuple[bytes, dict[bytes, bytes]]:
    """Return the type of a body in lower case, such as `JSON`, and the options after it; b"" if there is none.

    Raises:
        RequestError: with status 400 if its charset is not UTF-8.
    """
    kind, options = parse_options_header(request.headers.get("content-type"))
    charset = options.get(b"charset", b"utf-8").lower()
    if charset not in _UTF_8:
        raise RequestError(400, f"the charset {quoted(charset.decode('latin-1'))} is not supported: send UTF-8")
    return kind, options


def _missing(name: str) -> RequestError:
    return RequestError(400, f"the parameter {name} is missing")


def _checked_text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise RequestError(400, f"{name} must be a string")
    if "\0" in value:
        raise RequestError(400, f"{name} contains the character NUL: remove it")
    # JSON can contain half of a surrogate pair, which is no character.
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise RequestError(400, f"{name} contains a surrogate without its other half: send valid Unicode")
    return value


def _by_name(fields: Iterable[tuple[str, str]]) -> dict[str, list[object]]:
    values: dict[str, list[object]] = {}
    for name, value in fields:
        values.setdefault(name.removesuffix("[]"), []).append(value)
    return values


def _fields(data: bytes, where: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(data.decode(), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS)
    except UnicodeDecodeError as error:
        raise _not_utf_8(where) from error
    except ValueError as error:
        raise RequestError(400, f"{where} has more than {MAX_FIELDS:,} parameters") from error


def _not_utf_8(where: str) -> RequestError:
    return RequestError(400, f"{where} is not UTF-8")


async def _read_form(request: Request, boundary: bytes) -> FormData:
    """Return a form of several parts, whose texts are decoded as Latin-1, see `_decoded`."""
    if not 1 <= len(boundary) <= 70 or not _BOUNDARY.issuperset(boundary):
        raise RequestError(400, "the Content-Type of the form has no valid boundary")
    # The parser replaces wrong UTF-8 by Latin-1 without a word; with Latin-1, no byte is lost.
    headers = Headers({"content-type": f'{_MULTIPART.decode()}; charset=latin-1; boundary="{boundary.decode()}"'})
    try:
        return await MultiPartParser(
            headers, request.stream(), max_files=1, max_fields=MAX_FIELDS, max_part_size=sys.maxsize
        ).parse()
    except MultiPartException as error:
        raise RequestError(400, f"the form cannot be read: {error.message}") from error
    except HTTPException as error:
        raise RequestError(400, f"the form cannot be read: {error.detail}") from error


async def _parts(form: FormData) -> tuple[list[tuple[str, str]], dict[str, Upload]]:
    fields: list[tuple[str, str]] = []
    uploads: dict[str, Upload] = {}
    for name, value in form.multi_items():
        if isinstance(value, UploadFile):
            uploads[_decoded(name)] = Upload(name=_decoded(value.filename or ""), content=await value.read())
        else:
            fields.append((_decoded(name), _decoded(value)))
    return fields, uploads


def _decoded(latin: str) -> str:
    try:
        return latin.encode("latin-1").decode()
    except UnicodeDecodeError as error:
        raise _not_utf_8("the form") from error
