"""DeepL's interface: parameters, answers and errors that the clients of others do not show."""

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from dragoman.serving.access.keyed_access import KeyedAccess
from dragoman.serving.access.monthly_usage import MonthlyUsage
from dragoman.serving.limits import Limits
from dragoman.serving.request_error import RequestError
from tests.support.serving_deepl import KEY, OneKey, UpperCase, application

HEADERS = {"Authorization": f"DeepL-Auth-Key {KEY}"}
REQUEST = {"text": ["Hello", "two words"], "source_lang": "EN", "target_lang": "DE"}
GLOSSARY = {
    "name": "mine",
    "source_lang": "EN",
    "target_lang": "DE",
    "entries": "house\tHaus",
    "entries_format": "tsv",
}


class Answer(Protocol):
    """A response of the test client, whose class depends on the installed version of httpx."""

    @property
    def status_code(self) -> int: ...

    @property
    def text(self) -> str: ...

    def json(self) -> Any: ...


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    app = application(tmp_path_factory.mktemp("data"), limits=Limits(body_bytes=20_000, document_bytes=100_000))
    with TestClient(app, headers=HEADERS) as client:
        yield client


def message_of(response: Answer, status: int) -> str:
    assert response.status_code == status, response.text
    assert list(response.json()) == ["message"]
    message: str = response.json()["message"]
    return message


def translated(response: Answer) -> list[str]:
    assert response.status_code == 200, response.text
    return [translation["text"] for translation in response.json()["translations"]]


def test_texts_in_json_and_forms(client: TestClient) -> None:
    response = client.post("/v2/translate", json=REQUEST)
    assert response.json() == {
        "translations": [
            {"detected_source_language": "EN", "text": "HELLO", "billed_characters": 5},
            {"detected_source_language": "EN", "text": "TWO WORDS", "billed_characters": 9},
        ]
    }
    for name in ("text", "text[]"):
        form = {name: REQUEST["text"], "source_lang": "EN", "target_lang": "DE", "split_sentences": "nonewlines"}
        assert translated(client.post("/v2/translate", data=form)) == ["HELLO", "TWO WORDS"]
        assert translated(client.post("/v2/translate", data=form, files={"file": b""})) == ["HELLO", "TWO WORDS"]
    one = REQUEST | {"text": "Hello", "formality": "prefer_less", "model_type": "prefer_quality_optimized"}
    [translation] = client.post("/v2/translate", json=one).json()["translations"]
    assert translation["model_type_used"] == "quality_optimized"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "the parameter text is missing"),
        ({"text": {}}, "text must be a string"),
        ({"text": 5}, "text must be a string"),
        ({"text": [["a"]]}, "text must be a string"),
        ({"text": "a\0"}, "text contains the character NUL: remove it"),
        ({"text": ["a", None]}, "text must be a string"),
        ({"target_lang": None}, "the parameter target_lang is missing"),
        ({"target_lang": "FR"}, "target_lang 'FR' is not supported; supported: DE, EN, PT"),
        ({"target_lang": "NB"}, "target_lang 'NB' is not supported"),
        ({"target_lang": ["DE", "EN"]}, "target_lang must be a string"),
        ({"source_lang": "PT"}, "source_lang 'PT' is not supported; supported: DE, EN"),
        ({"formality": "more"}, "formality more is not supported: use prefer_more or default"),
        ({"formality": "rude"}, "formality must be one of default, prefer_more, prefer_less, not 'rude'"),
        ({"tag_handling": "md"}, "tag_handling must be one of html, xml, not 'md'"),
        ({"tag_handling": "xml", "text": ["a", "<b>"]}, "Tag handling parsing failed, please check input: mismatched"),
        ({"tag_handling": "xml", "ignore_tags": "x,<b>"}, "ignore_tags contains '<b>': give names of elements"),
        ({"splitting_tags": [1]}, "splitting_tags must be a string"),
        ({"outline_detection": "no"}, "outline_detection must be one of 1, 0, true, false, not 'no'"),
        ({"split_sentences": "2"}, "split_sentences must be one of 1, nonewlines, 0, not '2'"),
        ({"preserve_formatting": "yes"}, "preserve_formatting must be one of 0, 1, false, true, not 'yes'"),
        ({"model_type": "best"}, "model_type must be one of"),
        ({"style_id": "a"}, "the parameter style_id is not supported by this server"),
        ({"glossary_ids": ["a"]}, "the parameter glossary_ids is not supported by this server"),
    ],
)
def test_parameters_that_are_rejected(client: TestClient, change: dict[str, Any], message: str) -> None:
    assert message_of(client.post("/v2/translate", json=REQUEST | change), 400).startswith(message)


def test_parameters_without_effect_are_accepted(client: TestClient) -> None:
    accepted = {
        "context": "about",
        "ignore_tags": ["x"],
        "non_splitting_tags": ["b"],
        "outline_detection": False,
        "preserve_formatting": True,
        "show_billed_characters": True,
        "split_sentences": "0",
        "tag_handling_version": "v2",
        "unknown": 1,
    }
    assert translated(client.post("/v2/translate", json=REQUEST | accepted)) == ["HELLO", "TWO WORDS"]
    assert translated(client.post("/v2/translate", json=REQUEST | {"tag_handling": "html"})) == ["HELLO", "TWO WORDS"]


@pytest.mark.parametrize(
    ("text", "parameters", "expected"),
    [
        ("<p>a<x>b</x></p>", {"ignore_tags": "y, x"}, "<p>A<x>b</x></p>"),
        ("<p>a<x>b</x></p>", {"ignore_tags": ["y", "x"]}, "<p>A<x>b</x></p>"),
        ("<p>a <x>fail</x> b</p>", {"ignore_tags": "X", "tag_handling": "html"}, "<p>A <x>fail</x> B</p>"),
        ("<p>a <b>b</b></p>", {"splitting_tags": "b", "outline_detection": "0"}, "<p>A <b>B</b></p>"),
        ("<p>a</p> <p>b</p>", {"non_splitting_tags": ["p"], "outline_detection": True}, "<p>A</p> <p>B</p>"),
        ("<p>a</p>", {"ignore_tags": "", "splitting_tags": []}, "<p>A</p>"),
    ],
)
def test_tags(client: TestClient, text: str, parameters: dict[str, Any], expected: str) -> None:
    request = REQUEST | {"text": text, "tag_handling": "xml"} | parameters
    assert translated(client.post("/v2/translate", json=request)) == [expected]


@pytest.mark.parametrize(
    ("splitting", "expected"),
    [
        (None, "ONE LINE\nENDS HERE. NEXT \r\n LINE.\n\nLAST"),
        ("1", "ONE LINE\nENDS HERE. NEXT \r\n LINE.\n\nLAST"),
        ("nonewlines", "ONE LINE ENDS HERE. NEXT LINE.\n\nLAST"),
        ("0", "ONE LINE ENDS HERE. NEXT LINE. LAST"),
    ],
)
def test_line_feeds(client: TestClient, splitting: str | None, expected: str) -> None:
    request = REQUEST | {"text": "One line\nends here. Next \r\n line.\n\nLast", "split_sentences": splitting}
    assert translated(client.post("/v2/translate", json=request)) == [expected]


def test_variants(client: TestClient) -> None:
    for source, target in [("DE", "EN-US"), ("de", "en-gb"), ("EN", "PT-BR"), ("EN-US", "pt_pt"), ("en", "de-AT")]:
        request = {"text": "a", "source_lang": source, "target_lang": target}
        assert translated(client.post("/v2/translate", json=request)) == ["A"]


def test_languages_that_the_server_has_as_variants_only(tmp_path: Path) -> None:
    lines = UpperCase()
    lines.pairs = (("en-GB", "pt-BR"), ("pt-BR", "en-GB"), ("en-GB", "zh"), ("en-GB", "no"))
    with TestClient(application(tmp_path, lines=lines), headers=HEADERS) as client:
        for source, target in [("EN", "PT-PT"), ("en-us", "pt"), ("EN", "ZH-HANT"), ("EN", "NB"), ("PT-PT", "EN-US")]:
            request = {"text": "a", "source_lang": source, "target_lang": target}
            [translation] = client.post("/v2/translate", json=request).json()["translations"]
            assert (translation["text"], translation["detected_source_language"]) == ("A", source[:2].upper())
        sources, targets = (client.get("/v2/languages", params={"type": kind}).json() for kind in ("source", "target"))
        assert sources == [
            {"language": "EN", "name": "English"},
            {"language": "PT", "name": "Portuguese"},
        ]
        assert [each["language"] for each in targets] == ["EN-GB", "NB", "PT-BR", "ZH"]
        pairs = client.get("/v2/glossary-language-pairs").json()["supported_languages"]
        assert {"source_lang": "en", "target_lang": "pt"} in pairs
        glossary = client.post("/v2/glossaries", json=GLOSSARY | {"target_lang": "PT"}).json()
        assert (glossary["source_lang"], glossary["target_lang"]) == ("en", "pt")
        request = {"text": "a", "source_lang": "EN", "target_lang": "PT-BR", "glossary_id": glossary["glossary_id"]}
        assert translated(client.post("/v2/translate", json=request)) == ["A"]


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        ("application/x-www-form-urlencoded", b"text=a&target_lang=de&target_lang=en", "target_lang is given 2 times"),
        ("application/json", b"{", "the body cannot be read as JSON"),
        ("application/json", b"[]", "the body cannot be read as JSON: it is not a JSON object"),
        ("application/json", b"\xff", "the body cannot be read as JSON: it is not UTF-8"),
        ("application/json", b"[" * 10_000, "the body cannot be read as JSON: it is nested too deeply"),
        ("application/json", b'{"text": "a", "text": "b"}', "the body cannot be read as JSON: it has the key"),
        ("multipart/form-data", b"a", "the Content-Type of the form has no valid boundary"),
        ("multipart/form-data; boundary=x", b"--y", "the form cannot be read"),
        ("application/x-www-form-urlencoded", b"a=1&" * 2000, "the form has more than 1,000 parameters"),
    ],
)
def test_bodies_that_are_rejected(client: TestClient, content_type: str, body: bytes, message: str) -> None:
    response = client.post("/v2/translate", content=body, headers={"Content-Type": content_type})
    assert message_of(response, 400).startswith(message)


def test_a_body_of_another_type_is_rejected(client: TestClient) -> None:
    response = client.post("/v2/translate", content=b"a", headers={"Content-Type": "text/plain"})
    assert message_of(response, 415).startswith("the type of the body is not supported: set Content-Type to")


def test_parameters_of_the_body_replace_those_of_the_query_string(client: TestClient) -> None:
    response = client.post("/v2/translate", json=REQUEST, params={"text": "other", "source_lang": "DE"})
    assert translated(response) == ["HELLO", "TWO WORDS"]
    form = {"text[]": ["one"], "target_lang": "DE"}
    response = client.post("/v2/translate", data=form, params={"text": "other", "source_lang": "EN"})
    assert translated(response) == ["ONE"]


def test_limits(client: TestClient) -> None:
    assert "20,000 bytes" in message_of(client.post("/v2/translate", json=REQUEST | {"text": "a" * 20_000}), 413)
    assert "20,000 bytes" in message_of(client.post("/v2/translate", data=REQUEST, files={"file": b"a" * 20_000}), 413)
    assert "at most 100 texts" in message_of(client.post("/v2/translate", json=REQUEST | {"text": ["a"] * 101}), 413)
    upload = client.post("/v2/document", data=REQUEST, files={"file": ("a.txt", b"a" * 100_001)})
    assert "100,000 bytes" in message_of(upload, 413)


def test_keys(tmp_path: Path) -> None:
    access = OneKey()
    with TestClient(application(tmp_path, access=access)) as client:
        for headers in ({}, {"Authorization": f"Bearer {KEY}"}, {"Authorization": "DeepL-Auth-Key other"}):
            for path in ("/v2/translate", "/v2/document", "/v2/document/a", "/v2/document/a/result", "/v2/glossaries"):
                message_of(client.post(path, json=REQUEST, headers=headers), 403)
            for path in ("languages", "usage", "glossaries", "glossary-language-pairs", "glossaries/a/entries"):
                message_of(client.get(f"/v2/{path}", headers=headers), 403)
            message_of(client.delete("/v2/glossaries/a", headers=headers), 403)
        assert access.admitted == []
        assert translated(client.post("/v2/translate", json=REQUEST, headers=HEADERS)) == ["HELLO", "TWO WORDS"]
        assert translated(client.post("/v2/translate", json=REQUEST | {"auth_key": KEY})) == ["HELLO", "TWO WORDS"]
        assert client.get("/v2/usage", params={"auth_key": KEY}).json()["character_count"] == 28
        assert access.admitted == [14, 14, 0]


@pytest.mark.parametrize("status", [413, 429, 456, 503])
def test_errors_of_access(tmp_path: Path, status: int) -> None:
    access = OneKey(None, RequestError(status, "no", retry_after=1.2))
    with TestClient(application(tmp_path, access=access)) as client:
        response = client.post("/v2/translate", json=REQUEST)
        assert message_of(response, status) == "no"
        assert response.headers["Retry-After"] == "2"


def test_any_key_has_glossaries_of_its_own(tmp_path: Path) -> None:
    with TestClient(application(tmp_path, access=OneKey(None))) as client:
        [one, two] = [{"Authorization": f"DeepL-Auth-Key {name}"} for name in ("one", "two")]
        path = f"/v2/glossaries/{client.post('/v2/glossaries', json=GLOSSARY, headers=one).json()['glossary_id']}"
        assert client.get(path, headers=one).json()["name"] == "mine"
        for call in (client.get, client.delete):
            message_of(call(path, headers=two), 404)
        message_of(client.get(f"{path}/entries", headers=two), 404)
        assert client.get("/v2/glossaries", headers=two).json() == {"glossaries": []}
        assert client.delete(path, headers=one).status_code == 204
        # Keys are not in the file.
        assert not any(b"DeepL" in file.read_bytes() or b"\0one\0" in file.read_bytes() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": " "}, "name must have"),
        ({"name": "a\nb"}, "name must have"),
        ({"name": "a\u2028b"}, "name must have"),
        ({"name": "a" * 1025}, "name must have"),
        ({"entries": "a\tb\na\tc"}, "entries, line 2"),
        ({"entries_format": "xml"}, "entries_format must be tsv or csv"),
        ({"entries": None}, "the parameter entries is missing"),
    ],
)
def test_glossaries_that_are_rejected(client: TestClient, change: dict[str, Any], message: str) -> None:
    assert message_of(client.post("/v2/glossaries", json=GLOSSARY | change), 400).startswith(message)
    assert client.get("/v2/glossaries").json() == {"glossaries": []}


def test_the_name_of_a_glossary_may_have_any_visible_character(client: TestClient) -> None:
    for name in ("a\xa0b", "\U0001f468\u200d\U0001f469", "\u202a\u05d0"):
        glossary = client.post("/v2/glossaries", json=GLOSSARY | {"name": name}).json()
        assert glossary["name"] == name
        client.delete(f"/v2/glossaries/{glossary['glossary_id']}")


def test_a_glossary_must_suit_the_request(client: TestClient) -> None:
    identifier = client.post("/v2/glossaries", json=GLOSSARY).json()["glossary_id"]
    request = REQUEST | {"glossary_id": identifier}
    assert translated(client.post("/v2/translate", json=request)) == ["HELLO", "TWO WORDS"]
    message_of(client.post("/v2/translate", json=REQUEST | {"glossary_id": "other"}), 404)
    assert "source_lang is missing" in message_of(
        client.post("/v2/translate", json=request | {"source_lang": None}), 400
    )
    assert "is for en to de" in message_of(client.post("/v2/translate", json=request | {"target_lang": "PT-PT"}), 400)
    entries = f"/v2/glossaries/{identifier}/entries"
    assert client.get(entries).text == "house\tHaus"
    assert "as text/tab-separated-values only" in message_of(client.get(entries, headers={"Accept": "text/csv"}), 400)
    client.delete(f"/v2/glossaries/{identifier}")


def test_documents(client: TestClient) -> None:
    form = {"source_lang": "EN", "target_lang": "DE"}
    upload = client.post("/v2/document", data=form, files={"file": ("a/ü.txt", "Größe\n".encode())}).json()
    path, key = f"/v2/document/{upload['document_id']}", {"document_key": upload["document_key"]}
    while (status := client.post(path, data=key).json())["status"] != "done":
        assert status["status"] in ("queued", "translating")
        assert status["seconds_remaining"] >= 0
        time.sleep(0.01)
    assert status["billed_characters"] == 6
    message_of(client.post(f"{path}/result", json={"document_key": "other"}), 404)
    result = client.post(f"{path}/result", json=key)
    assert result.content == "GRÖSSE\n".encode()
    assert result.headers["Content-Disposition"] == "attachment; filename*=UTF-8''%C3%BC.txt"
    message_of(client.post(f"{path}/result", json=key), 404)
    message_of(client.post(path, json=key), 404)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("a.docx", {}, "documents of type '.docx' cannot be translated; these can: .txt"),
        ("a.txt", {"output_format": "docx"}, "output_format must be one of txt, not 'docx'"),
        ("a.txt", {"target_lang": "FR"}, "target_lang 'FR' is not supported"),
        ("a.txt", {"formality": "less"}, "formality less is not supported"),
        ("a.txt", {"filename": "b.pdf"}, "documents of type '.pdf'"),
    ],
)
def test_documents_that_are_rejected(client: TestClient, name: str, change: dict[str, str], message: str) -> None:
    form = {"source_lang": "EN", "target_lang": "DE"} | change
    response = client.post("/v2/document", data=form, files={"file": (name, b"a")})
    assert message_of(response, 400).startswith(message)
    assert "the file is missing" in message_of(client.post("/v2/document", data=form), 400)


def keyed_access(folder: Path, quota: str, limits: Limits) -> KeyedAccess:
    """Return the access of a server whose only key is `KEY`, which has this line in the file of keys."""
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    (folder / "keys.toml").write_text(f'[[keys]]\nname = "mine"\nsha256 = "{digest}"\n{quota}\n')
    usage = MonthlyUsage(folder / "usage.json")
    return KeyedAccess(limits, usage, keys=folder / "keys.toml", on_admitted=lambda _: None)


def test_the_usage_of_a_key_is_that_of_the_month(tmp_path: Path) -> None:
    limits = Limits()
    access = keyed_access(tmp_path, "quota = 30", limits)
    with TestClient(application(tmp_path, access=access, limits=limits), headers=HEADERS) as client:
        for status in (200, 200, 456):
            assert client.post("/v2/translate", json=REQUEST).status_code == status
            usage = client.get("/v2/usage")
        assert usage.json() == {"character_count": 28, "character_limit": 30}
        files = {"file": ("a.txt", b"abc")}
        assert "quota of 30" in message_of(client.post("/v2/document", data={"target_lang": "DE"}, files=files), 456)
        assert translated(client.post("/v2/translate", json=REQUEST | {"text": "ab"})) == ["AB"]
        assert client.get("/v2/usage").json() == {"character_count": 30, "character_limit": 30}
        message_of(client.post("/v2/translate", json=REQUEST | {"text": "a"}), 456)


def test_the_usage_of_a_key_without_quota(tmp_path: Path) -> None:
    limits = Limits()
    access = keyed_access(tmp_path, "", limits)
    with TestClient(application(tmp_path, access=access, limits=limits), headers=HEADERS) as client:
        assert client.post("/v2/translate", json=REQUEST).status_code == 200
        usage = client.get("/v2/usage").json()
        assert usage["character_count"] == 14
        assert usage["character_limit"] >= 10**12


def test_a_document_may_be_longer_than_a_text_and_is_refused_as_a_whole(tmp_path: Path) -> None:
    limits = Limits(characters=100, characters_per_minute=250)
    access = keyed_access(tmp_path, "quota = 300", limits)
    with TestClient(application(tmp_path, access=access, limits=limits), headers=HEADERS) as client:
        for length, status in ((200, 200), (51, 429), (101, 456), (50, 200)):
            files = {"file": ("a.txt", b"a" * length)}
            form = {"source_lang": "EN", "target_lang": "DE"}
            assert client.post("/v2/document", data=form, files=files).status_code == status
        assert client.get("/v2/usage").json()["character_count"] == 250


def test_lines_that_fail(tmp_path: Path) -> None:
    with TestClient(application(tmp_path, lines=UpperCase()), headers=HEADERS) as client:
        assert "the worker is gone" in message_of(client.post("/v2/translate", json=REQUEST | {"text": "fail"}), 503)


def test_other_paths_and_methods(client: TestClient) -> None:
    for path in ("/v2/write/rephrase", "/v3/glossaries", "/v3/style_rules", "/v2/", "/v2/document/a/b/c"):
        message_of(client.post(path), 404)
    for method, path, allowed in (
        ("GET", "translate", "POST"),
        ("PUT", "glossaries", "GET, POST, HEAD"),
        ("TRACE", "glossaries/a", "GET, DELETE, HEAD"),
    ):
        response = client.request(method, f"/v2/{path}")
        message = message_of(response, 405)
        assert message == f"the method must be {allowed.replace(', ', ' or ')}, not {method!r}"
        assert response.headers["allow"] == client.options(f"/v2/{path}").headers["allow"] == allowed
    assert client.head("/v2/languages").status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from([*REQUEST, *GLOSSARY, "tag_handling", "glossary_id", "auth_key", "document_key", "filename"])
PATHS = st.sampled_from(
    ["translate", "languages", "usage", "glossaries", "document", "document/a", "document/a/result", "glossaries/a"]
)
SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)


@SHARED
@given(path=PATHS, members=st.dictionaries(NAMES | st.text(), JSON), whole=st.booleans())
def test_no_json_gives_a_server_error(client: TestClient, path: str, members: dict[str, Any], whole: bool) -> None:
    body = json.dumps(members | (REQUEST if whole else {}))
    headers = {"Content-Type": "application/json"}
    assert client.post(f"/v2/{path}", content=body, headers=headers).status_code < 500


@SHARED
@given(
    path=PATHS,
    body=st.binary() | st.text().map(lambda text: ("--x\r\nContent-Disposition: form-data; " + text).encode()),
    content_type=st.sampled_from(
        [
            "application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "multipart/form-data; boundary=x; charset=idna",
        ]
    ),
)
def test_no_bytes_give_a_server_error(client: TestClient, path: str, body: bytes, content_type: str) -> None:
    response = client.post(f"/v2/{path}", content=body, headers={"Content-Type": content_type})
    assert response.status_code < 500


@SHARED
@given(values=st.dictionaries(NAMES, st.text() | st.just("EN")), name=st.text(), content=st.binary())
def test_no_form_gives_a_server_error(client: TestClient, values: dict[str, str], name: str, content: bytes) -> None:
    for path in ("translate", "glossaries", "document"):
        response = client.post(f"/v2/{path}", data=values, files={"file": (name + ".txt", content)})
        assert response.status_code < 500 or response.status_code == 429


def test_lone_surrogates(client: TestClient) -> None:
    for body in (
        b'{"text": ["a\\ud800"], "source_lang": "EN", "target_lang": "DE"}',
        b'{"text": "a", "target_lang": "\\ud800"}',
        b'{"\\ud800": {}}',
    ):
        response = client.post("/v2/translate", content=body, headers={"Content-Type": "application/json"})
        message_of(response, 400)
    body = b'{"text": "\\ud83d\\ude00", "source_lang": "EN", "target_lang": "DE"}'
    response = client.post("/v2/translate", content=body, headers={"Content-Type": "application/json"})
    assert translated(response) == ["\U0001f600"]
