"""Parameters of requests: what is read from each kind of body, and the status of what cannot be read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from dragoman.serving.interfaces.parameters import MAX_FIELDS, Parameters, Upload, read_parameters
from dragoman.serving.request_error import RequestError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data; boundary=xyz"


def read(body: bytes = b"", kind: str | None = None, query: bytes = b"") -> Parameters:
    async def messages() -> AsyncIterator[Message]:
        # In two parts, as from a network.
        yield {"type": "http.request", "body": body[: len(body) // 2], "more_body": True}
        yield {"type": "http.request", "body": body[len(body) // 2 :], "more_body": False}

    headers = [] if kind is None else [(b"content-type", kind.encode("latin-1"))]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": query, "headers": headers}
    return asyncio.run(read_parameters(Request(scope, receive=messages().__anext__)))


def error_of(body: bytes = b"", kind: str | None = None, query: bytes = b"") -> tuple[int, str]:
    with pytest.raises(RequestError) as raised:
        read(body, kind, query)
    return raised.value.status, raised.value.message


def part(header: str, content: bytes) -> bytes:
    disposition = f"Content-Disposition: form-data; {header}"
    return b"--xyz\r\n" + disposition.encode() + b"\r\n\r\n" + content + b"\r\n"


def test_json() -> None:
    body = json.dumps({"a": "ü😀", "b": 3, "c": None, "d": ["x", ""]}).encode()
    for kind in (JSON, JSON + "; charset=UTF-8", "Application/JSON"):
        parameters = read(body, kind)
        assert parameters.text("a") == "ü😀"
        assert parameters.integer("b", default=0, least=0, largest=9) == 3
        assert parameters.optional_text("c") is None
        assert parameters.text_or_texts("d") == parameters.texts("d") == ["x", ""]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b" ", "Expecting value"),
        (b"{", "Expecting property name"),
        (b'["a"]', "it is not a JSON object"),
        (b'{"q": "a", "q": "b"}', "it has the key 'q' twice"),
        (b'{"q": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "it is nested too deeply"),
        (b'{"q": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001, "it is nested too deeply"),
        (b'{"q": "\xff"}', "it is not UTF-8 (invalid start byte at byte 7)"),
        (b'{"q": ' + b"9" * 5000 + b"}", "Exceeds the limit"),
        ('{"q": "a"}'.encode("utf-16"), "it is not UTF-8"),
    ],
)
def test_wrong_json(body: bytes, message: str) -> None:
    status, text = error_of(body, JSON)
    assert status == 400
    assert text.startswith(f"the body cannot be read as JSON: {message}")


def test_forms_and_query_strings() -> None:
    body = b"a=%C3%BC+%26&b=&c[]=1&c=2"
    for parameters in (read(body, FORM), read(query=body), read(body, FORM + ";charset=utf-8")):
        assert parameters.text("a") == "ü &"
        assert parameters.optional_text("b") is None
        assert parameters.text_or_texts("a") == "ü &"
        assert parameters.texts("a") == ["ü &"]
        assert parameters.text_or_texts("c") == parameters.texts("c") == ["1", "2"]
        assert parameters.texts("d") == []
        for missing in ("b", "d"):
            with pytest.raises(RequestError, match=f"the parameter {missing} is missing"):
                parameters.text_or_texts(missing)
        with pytest.raises(RequestError, match="c is given 2 times: give it once"):
            parameters.text("c")


def test_the_body_replaces_the_query_string() -> None:
    parameters = read(b'{"a": "x", "b": null}', JSON, query=b"a=y&a=z&b=b")
    assert (parameters.text("a"), parameters.text("b")) == ("x", "b")
    assert read(b"a=x", FORM, query=b"a=y&c=c").values == {"a": ["x"], "c": ["c"]}


def test_choices_and_booleans() -> None:
    parameters = read(b'{"a": true, "b": 0, "c": "1", "d": "x", "e": 2, "f": []}', JSON)
    assert [parameters.boolean(name) for name in ("a", "b", "c", "missing")] == [True, False, True, False]
    assert parameters.choice("d", "y", "x") == "x"
    assert parameters.choice("missing", "y", "x") == "y"
    for name, message in (("d", "not 'x'"), ("e", "not '2'"), ("f", "f must be a string")):
        with pytest.raises(RequestError, match=message):
            parameters.boolean(name)


def test_wrong_forms_and_query_strings() -> None:
    for wrong in (b"a=%ff", b"a=\xff", b"a=%ed%a0%80", b"%ff=a"):
        assert error_of(wrong, FORM) == (400, "the form is not UTF-8")
        assert error_of(query=wrong) == (400, "the query string is not UTF-8")
    assert error_of(b"a=1&" * (MAX_FIELDS + 1), FORM) == (400, "the form has more than 1,000 parameters")


def test_forms_of_several_parts() -> None:
    content = bytes(range(256))
    body = part('name="q"', "ü".encode()) + part('name="q"', b"b") + part('name="file"; filename="ü.txt"', content)
    parameters = read(body + b"--xyz--\r\n", MULTIPART)
    assert parameters.text_or_texts("q") == ["ü", "b"]
    assert parameters.upload("file") == Upload(name="ü.txt", content=content)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (part('name="q"', b"\xff") + b"--xyz--\r\n", MULTIPART, "the form is not UTF-8"),
        (part("nothing", b"a") + b"--xyz--\r\n", MULTIPART, "the form cannot be read: "),
        (b"no parts", MULTIPART, "the form cannot be read: "),
        (
            part('name="a"; filename="a"', b"") * 2 + b"--xyz--\r\n",
            MULTIPART,
            "the form cannot be read: Too many files",
        ),
        (
            part('name="a"', b"") * (MAX_FIELDS + 1) + b"--xyz--\r\n",
            MULTIPART,
            "the form cannot be read: Too many fields",
        ),
        (b"--xyz--\r\n", "multipart/form-data", "the Content-Type of the form has no valid boundary"),
        (b"--xyz--\r\n", 'multipart/form-data; boundary="a\\"b"', "the Content-Type of the form has no valid boundary"),
        (b"a=b", FORM + "; charset=latin-1", "the charset 'latin-1' is not supported: send UTF-8"),
        (b"{}", JSON + "; charset=\xff", "the charset '"),
    ],
)
def test_wrong_types_of_body(body: bytes, kind: str, message: str) -> None:
    status, text = error_of(body, kind)
    assert status == 400
    assert text.startswith(message)


def test_other_types_of_body() -> None:
    for kind in (None, "text/plain", "", ";;;"):
        status, message = error_of(b"hello", kind)
        assert status == 415
        assert "application/json" in message
    for kind in (None, JSON, "text/plain"):
        assert read(b"", kind, b"q=a").text("q") == "a"


def test_whole_numbers() -> None:
    def number(value: object) -> int:
        return Parameters(values={"n": [value]}).integer("n", default=5, least=0, largest=7)

    assert [number(value) for value in (0, 7, "3", "", None, 2.0, -1, "-1")] == [0, 7, 3, 5, 5, 2, 0, 0]
    wrong: object
    for wrong in (8, 8.0, 2.5, float("inf"), float("nan"), True, "--1", "2.0", "٣", "9" * 5000, [1], {}, "x"):
        with pytest.raises(RequestError, match="n must be a whole number from 0 to 7"):
            number(wrong)


KINDS = st.one_of(st.sampled_from([None, JSON, FORM, MULTIPART]), st.text(alphabet=st.characters(max_codepoint=255)))
PARTS = st.lists(
    st.sampled_from(
        [b"--xyz", b"--", b"\r\n", b'Content-Disposition: form-data; name="q"', b"filename", b"=", b";", b"%ff"]
    )
)


@given(body=st.one_of(st.binary(), PARTS.map(b"".join)), kind=KINDS, query=st.binary())
def test_anything_is_read_or_refused(body: bytes, kind: str | None, query: bytes) -> None:
    with suppress(RequestError):
        read(body, kind, query)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_every_text_comes_through_every_way(text: str) -> None:
    assert read(json.dumps({"q": text}).encode(), JSON).text("q") == text
    assert read(f"q={quote(text)}".encode(), FORM).text("q") == text
    assert read(query=f"q={quote(text)}".encode()).text("q") == text
    if "\n--xyz" not in text:
        assert read(part('name="q"', text.encode()) + b"--xyz--\r\n", MULTIPART).text("q") == text
