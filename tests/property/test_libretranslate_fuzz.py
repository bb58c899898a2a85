"""LibreTranslate's interface with random requests: never an internal error, and errors are {"error": text}."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dragoman.serving.limits import Limits
from tests.support.serving_libre import make_app

NAMES = ["q", "s", "source", "target", "format", "alternatives", "api_key", "file"]
# Whole texts of JSON, halves of surrogate pairs and NUL included.
TEXTS = st.one_of(
    st.sampled_from(["en", "de", "auto", "html", "text", "2", "often", "\ud800", "\0", ""]),
    st.text(alphabet=st.characters(), max_size=20),
)
VALUES = st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS), st.lists, max_leaves=5)
BODIES = st.one_of(VALUES, st.dictionaries(st.one_of(st.sampled_from(NAMES), TEXTS), VALUES))
# Mostly valid requests, in which one or two values are wrong.
ALMOST = st.fixed_dictionaries(
    {"q": st.one_of(TEXTS, VALUES), "s": TEXTS, "source": st.sampled_from(["en", "auto"]), "target": st.just("de")},
    optional={"format": TEXTS, "alternatives": VALUES, "api_key": TEXTS},
)
POSTS = st.sampled_from(["/translate", "/detect", "/suggest", "/translate_file"])
FORMS = st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=20)))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    directory: Path = tmp_path_factory.mktemp("fuzz")
    app = make_app(directory / "data", limits=Limits(texts=3), suggestions=directory / "suggestions")
    with TestClient(app) as client:
        yield client


def check(client: TestClient, path: str, body: bytes, kind: str, method: str = "POST", query: bytes = b"") -> None:
    response = client.request(
        method, path, content=body, headers={"content-type": kind}, params=query.decode("latin-1")
    )
    assert response.status_code in (200, 400, 403, 404, 405, 429)
    if response.status_code != 200:
        assert list(response.json()) == ["error"]
        assert response.json()["error"]


@given(path=POSTS, body=st.one_of(BODIES, ALMOST))
def test_json(client: TestClient, path: str, body: object) -> None:
    check(client, path, json.dumps(body).encode(), "application/json")


@given(path=POSTS, body=st.binary(), kind=st.sampled_from(["application/json", "text/plain", "", "a/b; charset=x"]))
def test_bytes(client: TestClient, path: str, body: bytes, kind: str) -> None:
    check(client, path, body, kind)


@given(path=POSTS, form=FORMS)
def test_forms(client: TestClient, path: str, form: list[tuple[str, bytes]]) -> None:
    body = b"&".join(name.encode() + b"=" + value for name, value in form)
    check(client, path, body, "application/x-www-form-urlencoded")
    check(client, path, b"", "application/x-www-form-urlencoded", query=body)


@given(path=POSTS, form=FORMS, file_name=st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_forms_of_several_parts(client: TestClient, path: str, form: list[tuple[str, bytes]], file_name: str) -> None:
    form = [("source", b"en"), ("target", b"de"), *form]
    body = b"".join(
        b'--xyz\r\nContent-Disposition: form-data; name="' + name.encode() + b'"\r\n\r\n' + value + b"\r\n"
        for name, value in form
    )
    body += b'--xyz\r\nContent-Disposition: form-data; name="file"; filename="' + file_name.encode()
    body += b'.txt"\r\n\r\nhello\r\n--xyz--\r\n'
    check(client, path, body, "multipart/form-data; boundary=xyz")


@given(
    path=st.sampled_from(["/languages", "/health", "/frontend/settings", "/translate", "/download_file/x"]),
    method=st.sampled_from(["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"]),
    body=st.binary(),
)
def test_methods(client: TestClient, path: str, method: str, body: bytes) -> None:
    check(client, path, body, "application/json", method)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_downloads(client: TestClient, name: str) -> None:
    response = client.get(f"/download_file/{quote(name, safe='')}")
    assert response.status_code == 404
