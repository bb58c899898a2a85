"""LibreTranslate's interface: its parameters, answers and errors."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from dragoman.serving.limits import Limits
from dragoman.serving.texts.service import TranslationService
from tests.support.serving_libre import (
    BROKEN,
    ENDLESS,
    KEY,
    FakeAccess,
    UpperLines,
    UpperService,
    make_app,
    running,
)
from tests.support.serving_texts import upper_lines

HELLO = {"q": "hello", "source": "en", "target": "de"}


@pytest.fixture
def access() -> FakeAccess:
    return FakeAccess()


@pytest.fixture
def client(tmp_path: Path, access: FakeAccess) -> Iterator[TestClient]:
    limits = Limits(texts=3, alternatives=2, document_bytes=1000)
    app = make_app(tmp_path / "data", access=access, limits=limits, suggestions=tmp_path / "suggestions.jsonl")
    with TestClient(app) as client:
        yield client


def test_the_parameters_come_from_json_a_form_or_the_query_string(client: TestClient) -> None:
    for response in (
        client.post("/translate", json=HELLO),
        client.post("/translate", data=HELLO),
        client.post("/translate", data=HELLO, files={"unused": ("", b"")}),
        client.post("/translate", params=HELLO),
        client.post("/translate", params={"q": "hello"}, json={"source": "en", "target": "de"}),
        client.post("/translate", params=HELLO | {"q": "other"}, json={"q": "hello"}),
    ):
        assert (response.status_code, response.json()) == (200, {"translatedText": "HELLO"})


def test_a_list_of_texts(client: TestClient) -> None:
    response = client.post("/translate", json={**HELLO, "q": ["a", "", "ß"], "alternatives": 1, "source": "auto"})
    assert response.json() == {
        "translatedText": ["A", "", "SS"],
        "detectedLanguage": [{"confidence": 87.0, "language": "en"}] * 3,
        "alternatives": [["A!"], ["!"], ["SS!"]],
    }
    assert client.post("/translate", data={**HELLO, "q": ["a", "b"]}).json() == {"translatedText": ["A", "B"]}


def test_one_text_with_alternatives_and_detection(client: TestClient) -> None:
    response = client.post("/translate", data={**HELLO, "source": "auto", "alternatives": "2", "format": "html"})
    assert response.json() == {
        "translatedText": "HELLO",
        "detectedLanguage": {"confidence": 87.0, "language": "en"},
        "alternatives": ["HELLO!", "HELLO!!"],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": None}, "the parameter q is missing"),
        ({"q": ""}, "the parameter q is missing"),
        ({"q": []}, "the parameter q is missing"),
        ({"source": None}, "the parameter source is missing"),
        ({"target": ""}, "the parameter target is missing"),
        ({"target": "xx"}, "'en' to 'xx' is not supported"),
        ({"q": 7}, "q must be a string"),
        ({"q": ["a", {}]}, "q must be a string"),
        ({"source": ["en"]}, "source must be a string"),
        ({"format": "pdf"}, "format must be one of text, html, not 'pdf'"),
        ({"alternatives": 3}, "alternatives must be a whole number from 0 to 2"),
        ({"alternatives": True}, "alternatives must be a whole number from 0 to 2"),
        ({"alternatives": "many"}, "alternatives must be a whole number from 0 to 2"),
        ({"q": "a\0b"}, "q contains the character NUL: remove it"),
        ({"q": "\ud83d"}, "q contains a surrogate without its other half: send valid Unicode"),
        ({"q": ["a"] * 4}, "q has 4 texts: send at most 3"),
        ({"q": "a" * 1001}, "1001 characters: send at most 1000"),
    ],
)
def test_wrong_values(client: TestClient, changes: dict[str, object], message: str) -> None:
    response = client.post(
        "/translate", content=json.dumps(HELLO | changes), headers={"content-type": "application/json"}
    )
    assert (response.status_code, response.json()) == (400, {"error": message})


def test_keys_are_in_the_body_or_the_query_string(tmp_path: Path) -> None:
    access = FakeAccess(keys_required=True)
    with TestClient(make_app(tmp_path, access=access, suggestions=tmp_path / "suggestions")) as client:
        assert client.post("/translate", json=HELLO | {"api_key": KEY}).status_code == 200
        assert client.post("/translate", json=HELLO, params={"api_key": KEY}).status_code == 200
        assert client.post("/detect", data={"q": "abc", "api_key": KEY}).status_code == 200
        assert access.admitted == [(KEY, 5), (KEY, 5), (KEY, 3)]
        file = {"file": ("a.txt", b"hello")}
        for response in (
            client.post("/translate", json=HELLO),
            client.post("/translate", json=HELLO | {"api_key": "other"}),
            client.post("/detect", json=HELLO),
            client.post("/suggest", json=HELLO | {"s": "hallo"}),
            client.post("/translate_file", data={"source": "en", "target": "de"}, files=file),
        ):
            assert (response.status_code, response.json()) == (403, {"error": "a valid API key is needed"})
        assert client.get("/frontend/settings").json()["keyRequired"] is True


def test_too_many_requests(client: TestClient) -> None:
    response = client.post("/translate", json=HELLO, params={"api_key": "often"})
    assert response.status_code == 429
    assert response.json() == {"error": "Slowdown: 2 requests in a minute"}
    assert response.headers["retry-after"] == "2"


def test_other_methods(client: TestClient) -> None:
    for method, path, allowed in (("GET", "/translate", "POST"), ("POST", "/languages", "GET, HEAD")):
        response = client.request(method, path)
        assert (response.status_code, response.headers["allow"]) == (405, allowed)
        assert response.json() == {"error": f"this address accepts {allowed} only"}


def test_an_internal_error_has_no_details(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        response = client.post("/translate", json=HELLO | {"q": BROKEN})
    assert (response.status_code, response.json()) == (500, {"error": "internal error of the server"})
    assert "LookupError" in caplog.text
    assert "translate_line" in caplog.text
    assert f"no such word: {BROKEN}" not in caplog.text


def test_detect_languages_settings_health(client: TestClient) -> None:
    assert client.post("/detect", data={"q": "hello"}).json() == [{"confidence": 87.0, "language": "en"}]
    # Languages that are targets only are listed as well.
    languages = [(each["code"], each["targets"]) for each in client.get("/languages").json()]
    assert languages == [("en", ["de", "es"]), ("de", []), ("es", [])]
    assert client.get("/health").json() == {"status": "ok"}
    settings = client.get("/frontend/settings").json()
    assert settings["language"]["source"] == {"code": "auto", "name": "Auto Detect"}
    assert settings.pop("language")["target"]["code"] == "de"
    assert settings == {
        "charLimit": 50_000,
        "frontendTimeout": 500,
        "apiKeys": False,
        "keyRequired": False,
        "suggestions": True,
        "filesTranslation": True,
        "supportedFilesFormat": [".txt"],
    }


def test_suggestions_are_lines_of_json(client: TestClient, tmp_path: Path) -> None:
    suggestion = {"q": "two\nlines", "s": "zwei\nZeilen \u2028ü", "source": "auto", "target": "de"}
    for _ in range(2):
        response = client.post("/suggest", json=suggestion)
        assert (response.status_code, response.json()) == (200, {"success": True})
    assert client.post("/suggest", json=suggestion | {"source": "xx"}).status_code == 400
    assert client.post("/suggest", json=suggestion | {"target": "de-AT", "source": "en_US"}).status_code == 200
    assert client.post("/suggest", json=suggestion | {"s": ""}).status_code == 400
    lines = (tmp_path / "suggestions.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines[:2]] == [suggestion] * 2
    assert len(lines) == 3


def test_suggestions_are_off_without_a_file(tmp_path: Path) -> None:
    with TestClient(make_app(tmp_path)) as client:
        response = client.post("/suggest", json=HELLO | {"s": "hallo"})
        assert (response.status_code, response.json()) == (403, {"error": "this server accepts no suggestions"})
        assert client.get("/frontend/settings").json()["suggestions"] is False


@pytest.mark.parametrize("source", ["en", "auto"])
def test_a_file_is_translated_and_downloaded(client: TestClient, access: FakeAccess, source: str) -> None:
    content = b"first\n\n  zweite Zeile\n"
    data = {"source": source, "target": "de"}
    response = client.post("/translate_file", data=data, files={"file": ("meine Datei.TXT", content)})
    url = response.json()["translatedFileUrl"]
    assert url.startswith("http://testserver/download_file/")
    assert url.endswith(".meine_Datei.TXT")
    download = client.get(url)
    assert download.content == content.upper()
    assert download.headers["content-disposition"] == 'attachment; filename="meine_Datei.TXT"'
    assert download.headers["content-type"] == "application/octet-stream"
    assert access.admitted == [(None, 0), (None, len(content))]


def test_the_language_of_a_file_is_one_that_can_be_translated(tmp_path: Path) -> None:
    """A text in a language that the server does not have is taken for one that it has."""
    service = TranslationService(upper_lines([("nl", "de")]))
    with TestClient(make_app(tmp_path, service=service)) as client:
        data = {"source": "auto", "target": "de"}
        content = b"Where is the railway station?\nThe next train is late.\n"
        response = client.post("/translate_file", data=data, files={"file": ("a.txt", content)})
        assert client.get(response.json()["translatedFileUrl"]).content in (content, content.upper())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.exe", b"MZ", "documents of type '.exe' cannot be translated; these can: .txt"),
        ("a.txt", b"\xff\xfe", "the document is not UTF-8 (at byte 0): convert it"),
    ],
)
def test_wrong_files(client: TestClient, name: str, content: bytes, message: str) -> None:
    data = {"source": "en", "target": "de"}
    response = client.post("/translate_file", data=data, files={"file": (name, content)})
    assert (response.status_code, response.json()) == (400, {"error": message})
    response = client.post("/translate_file", data=data)
    assert response.status_code == 400
    assert response.json()["error"].startswith("the file is missing: send file as multipart/form-data")
    response = client.post("/translate_file", data=data, files={"file": ("a.txt", b"a" * 1000)})
    assert response.status_code == 413


@pytest.mark.parametrize(
    "path", ["", "x", "../../suggestions.jsonl", "..%2F..%2Fsuggestions.jsonl", "%2Fetc%2Fpasswd", "%00", "a%0Ab"]
)
def test_downloads_of_other_files(client: TestClient, tmp_path: Path, path: str) -> None:
    (tmp_path / "suggestions.jsonl").write_text("secret")
    response = client.get(f"/download_file/{path}")
    assert response.status_code == 404
    assert "secret" not in response.text


def wait_until(number: int, lines: UpperLines, name: str) -> None:
    deadline = time.monotonic() + 20
    while getattr(lines, name) < number:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_that_goes_away_frees_its_place(tmp_path: Path) -> None:
    lines = UpperLines()
    with running(make_app(tmp_path, service=UpperService(lines))) as port:
        body = json.dumps(HELLO | {"q": [ENDLESS, ENDLESS]}).encode()
        head = "POST /translate HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + body)
            wait_until(2, lines, "begun")
            assert lines.cancelled == 0
        wait_until(2, lines, "cancelled")
        # One that goes away before its body is complete is no error either.
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(head.encode() + body[:5])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert connection.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"
    assert lines.begun == 2


def test_the_address_of_a_file_has_the_host_that_the_client_used(tmp_path: Path) -> None:
    with TestClient(make_app(tmp_path), base_url="https://example.org:444") as client:
        response = client.post(
            "/translate_file", data={"source": "en", "target": "de"}, files={"file": ("a.txt", b"a")}
        )
    url = urlsplit(response.json()["translatedFileUrl"])
    assert (url.scheme, url.netloc) == ("https", "example.org:444")
