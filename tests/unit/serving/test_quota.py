"""The quota of a key: requests that are refused or fail cost nothing, in every interface."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from dragoman.serving.access.keyed_access import KeyedAccess
from dragoman.serving.access.monthly_usage import MonthlyUsage
from dragoman.serving.interfaces import deepl, libretranslate, own
from dragoman.serving.limits import Limits
from dragoman.serving.texts.service import TranslationService
from tests.support.serving_app import behind_limits, make_context
from tests.support.serving_deepl import KEY, UpperCase

LIMITS = Limits(characters=50)
LIBRE = {"q": "four", "source": "en", "target": "de", "api_key": KEY}
DEEPL = {"text": ["four"], "source_lang": "EN", "target_lang": "DE", "auth_key": KEY}
OWN = {"texts": ["four"], "source": "en", "target": "de"}
STREAM = {"text": "four", "source": "en", "target": "de"}
FILE = ("/translate_file", {"source": "en", "target": "de", "api_key": KEY})
DOCUMENT = ("/v2/document", {"source_lang": "EN", "target_lang": "DE", "auth_key": KEY})


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (tmp_path / "keys.toml").write_text(f'[[keys]]\nname = "mine"\nsha256 = "{digest}"\nquota = 100')
    usage = MonthlyUsage(tmp_path / "usage.json")
    access = KeyedAccess(LIMITS, usage, keys=tmp_path / "keys.toml", on_admitted=lambda _: None)
    context = make_context(TranslationService(UpperCase()), access, LIMITS, tmp_path, tmp_path / "suggestions")
    app = Starlette(routes=[*own.routes(context), *deepl.routes(context), *libretranslate.routes(context)])
    with TestClient(behind_limits(app, LIMITS), headers={"Authorization": f"Bearer {KEY}"}) as client:
        yield client


def used(client: TestClient) -> int:
    count: int = client.post("/v2/usage", json={"auth_key": KEY}).json()["character_count"]
    return count


@pytest.mark.parametrize(
    ("path", "body", "changes"),
    [
        ("/translate", LIBRE, [{"q": "fail"}, {"target": "xx"}, {"alternatives": 99}, {"q": [""] * 101}]),
        ("/suggest", LIBRE | {"s": ""}, [{"s": "vier", "target": "xx"}]),
        ("/v2/translate", DEEPL, [{"text": "fail"}, {"target_lang": "XX"}, {"formality": "more"}]),
        ("/v1/translate", OWN, [{"texts": ["fail"]}, {"target": "xx"}, {"alternatives": 99}]),
        ("/v1/translate/stream", STREAM, [{"text": "fail"}, {"target": "xx"}, {"alternatives": 99}]),
        ("/v1/attention", STREAM, [{}, {"target": "xx"}]),
    ],
)
def test_requests_that_are_refused_or_fail(
    client: TestClient, path: str, body: dict[str, Any], changes: list[dict[str, Any]]
) -> None:
    for change in changes:
        assert client.post(path, json=body | change).status_code in (400, 503), change
        assert used(client) == 0, change
    answered = client.post(path, json=body).status_code == 200
    assert used(client) == 4 * answered


def test_a_stream_that_fails_after_a_sentence(client: TestClient) -> None:
    response = client.post("/v1/translate/stream", json=STREAM | {"text": "Four.\nfail"})
    assert "event: sentence" in response.text
    assert "event: error" in response.text
    assert used(client) == 0


@pytest.mark.parametrize(("path", "form"), [FILE, DOCUMENT])
def test_documents(client: TestClient, path: str, form: dict[str, str]) -> None:
    # The clients of LibreTranslate do not know 456.
    exhausted = 403 if path == "/translate_file" else 456
    for content, change, status in (
        (b"\xff", {}, 400),
        (b"a" * 101, {}, exhausted),
        (b"four", {list(form)[1]: "xx"}, 400),
    ):
        response = client.post(path, data=form | change, files={"file": ("a.txt", content)})
        assert response.status_code == status
        assert used(client) == 0
    # A document may be longer than a text.
    assert client.post(path, data=form, files={"file": ("a.txt", b"four " * 12)}).status_code == 200
    assert used(client) == 60


@pytest.mark.parametrize(("path", "form"), [FILE, DOCUMENT])
def test_nul_in_documents(client: TestClient, path: str, form: dict[str, str]) -> None:
    response = client.post(path, data=form, files={"file": ("a.txt", b"a\nb\0c")})
    assert response.status_code == 400
    assert "the document contains the character NUL (in line 2): remove it" in response.text


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/translate", LIBRE, "q"),
        ("/v2/translate", DEEPL, "text"),
        ("/v1/translate", OWN, "texts"),
        ("/v1/translate/stream", STREAM, "text"),
        ("/v1/attention", STREAM, "text"),
        ("/v1/detect", {}, "text"),
    ],
)
def test_nul_and_byte_order_marks(client: TestClient, path: str, body: dict[str, Any], name: str) -> None:
    nul = ["a\0b"] if name == "texts" else "a\0b"
    response = client.post(path, json=body | {name: nul})
    assert response.status_code == 400
    assert "contains the character NUL: remove it" in response.text
    if path == "/v1/detect":
        return
    headers = {"Content-Type": "application/json"}
    marked = client.post(path, content=b"\xef\xbb\xbf" + json.dumps(body).encode(), headers=headers)
    assert marked.status_code == client.post(path, json=body).status_code
    assert "JSON" not in marked.text


def test_a_document_that_fails(client: TestClient) -> None:
    path, form = DOCUMENT
    upload = client.post(path, data=form, files={"file": ("a.txt", b"fail")}).json()
    status: dict[str, str] = {}
    while status.get("status") != "error":
        status = client.post(f"{path}/{upload['document_id']}", json=upload | {"auth_key": KEY}).json()
        time.sleep(0.01)
    assert used(client) == 0
