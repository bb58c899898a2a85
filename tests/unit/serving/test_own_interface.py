"""The interface below /v1: answers, streaming, errors, cancellation, and its description."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.testclient import TestClient

from dragoman.serving.interfaces.own.endpoints import reporting_errors
from dragoman.serving.interfaces.own.schemas import AttentionAnswer
from dragoman.serving.limits import Limits
from dragoman.serving.request_error import RequestError
from tests.support.serving_page import WordLines, make_app, serving

PAIR = {"source": "en", "target": "de"}
TEXT = " Good morning.\n\nThe museum is closed on Mondays. The old house  \n"


@pytest.fixture
def lines() -> WordLines:
    return WordLines()


@pytest.fixture
def client(lines: WordLines, tmp_path: Path) -> TestClient:
    return TestClient(make_app(lines, tmp_path, limits=Limits(characters=200, texts=3, alternatives=2)))


def post(client: TestClient, path: str, **body: Any) -> Any:
    return client.post(path, json=body)


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.split("\n\n") if block]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def wait_for(condition: Callable[[], object]) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < 10
        time.sleep(0.01)


def test_an_answer_has_alternatives_scores_and_flags(client: TestClient) -> None:
    answer = post(client, "/v1/translate", texts=["Good morning.", "endless"], alternatives=2, **PAIR)
    assert answer.status_code == 200
    first, second = answer.json()["translations"]
    assert first["text"] == "Guten Morgen."
    assert first["alternatives"] == ["Guten Tag.", "Schönen guten Morgen."]
    assert first["source"] == "en"
    [sentence] = first["sentences"]
    assert sentence["score"] == -0.8
    assert sentence["log_probability"] == -1.6
    assert [each["text"] for each in sentence["alternatives"]] == first["alternatives"]
    assert sentence["truncated"] is False
    assert second["sentences"][0]["truncated"] is True
    # What was not asked for, or does not exist yet, is missing.
    assert not {"detection", "through"} & set(first)
    assert not {"links", "words", "guarded", "confidence"} & set(sentence)


def test_sentences_of_a_calibrated_model_have_a_confidence(client: TestClient) -> None:
    museum, coats = "The museum is closed on Mondays.", "Please leave your coats and bags at the entrance."
    texts = [f"{museum} {coats}", f"{museum} Good morning.", ""]
    both, one, none = post(client, "/v1/translate", texts=texts, **PAIR).json()["translations"]
    assert [sentence["confidence"] for sentence in both["sentences"]] == [0.624, 0.876]
    assert both["confidence"] == pytest.approx(0.75)
    assert one["sentences"][0]["confidence"] == 0.624
    assert "confidence" not in one["sentences"][1]
    assert not {"confidence"} & {*one, *none}
    (_, streamed), (_, whole) = events(post(client, "/v1/translate/stream", text=museum, **PAIR).text)
    assert streamed["confidence"] == whole["confidence"] == 0.624


def test_a_stream_has_the_sentences_in_order_and_then_the_whole_text(client: TestClient) -> None:
    answer = post(client, "/v1/translate/stream", text=TEXT, **PAIR)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *sentences, (name, whole) = events(answer.text)
    assert {name for name, _ in sentences} == {"sentence"}
    assert len(sentences) == 3
    assert name == "text"
    assert whole["text"] == " Guten Morgen.\n\nDas Museum ist montags geschlossen. das alt Haus  \n"
    assert whole["sentences"] == [sentence for _, sentence in sentences]


def test_a_sentence_is_sent_before_later_ones_are_finished(lines: WordLines, tmp_path: Path) -> None:
    """When the client goes away, the unfinished sentences are given up."""
    with serving(make_app(lines, tmp_path)) as address:
        body = {"text": "Good morning. It works slowly.", **PAIR}
        with httpx.stream("POST", f"{address}v1/translate/stream", json=body, timeout=10) as answer:
            block = next(answer.iter_text())
        assert block.startswith("event: sentence\n")
        wait_for(lambda: lines.cancelled)
    assert len(lines.finished) == 1


def test_a_client_that_goes_away_cancels_its_request(lines: WordLines, tmp_path: Path) -> None:
    with serving(make_app(lines, tmp_path)) as address:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}v1/translate", json={"texts": ["It works slowly."], **PAIR}, timeout=0.5)
        wait_for(lambda: lines.cancelled)
    assert lines.finished == []


def test_an_error_before_the_first_sentence_has_a_status(client: TestClient) -> None:
    answer = post(client, "/v1/translate/stream", text="unlucky", **PAIR)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert answer.json() == {"error": {"message": "the worker stopped"}}


@pytest.mark.parametrize(("seconds", "header"), [(0.2, "1"), (1.2, "2"), (3.0, "3")])
def test_the_seconds_to_wait_are_not_rounded_down(seconds: float, header: str) -> None:
    async def fail(request: Request) -> Response:
        raise RequestError(503, "full", retry_after=seconds)

    async def answer() -> Response:
        return await reporting_errors(fail)(Request({"type": "http"}))

    assert asyncio.run(answer()).headers["retry-after"] == header


def test_errors_are_described(client: TestClient) -> None:
    described = client.get("/openapi.json").json()["paths"]["/v1/translate"]["post"]["responses"]
    assert set(described) == {"200", "400", "403", "408", "413", "415", "421", "429", "456", "500", "503"}


def test_an_error_after_the_first_sentence_is_an_event(client: TestClient) -> None:
    answer = post(client, "/v1/translate/stream", text="Good morning. An unlucky one. Good morning.", **PAIR)
    assert [name for name, _ in events(answer.text)] == ["sentence", "error"]
    assert events(answer.text)[-1][1] == {"error": {"message": "the worker stopped"}}


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"texts": ["a"], "source": "en"}, 400, "target: Field required"),
        ({"texts": "a", **PAIR}, 400, "texts: Input should be"),
        ({"texts": [], **PAIR}, 400, "texts: "),
        ({"texts": ["a", 1], **PAIR}, 400, "texts.1: Input should be"),
        ({"texts": ["a"], **PAIR, "aligment": True}, 400, "aligment: Extra"),
        ({"texts": ["a"], **PAIR, "alternatives": 3}, 400, "alternatives: 3 is more than 2"),
        ({"texts": ["a"], "source": "en", "target": "fr"}, 400, "fr is not supported"),
        ({"texts": ["a"] * 4, **PAIR}, 400, "texts: there are 4 texts"),
        ({"texts": ["a" * 201], **PAIR}, 413, "201 characters"),
    ],
)
def test_a_wrong_request_is_refused(client: TestClient, body: dict[str, Any], status: int, message: str) -> None:
    answer = post(client, "/v1/translate", **body)
    assert answer.status_code == status
    assert message in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"null", b"[" * 10_000, b'{"texts": ["\\ud800"]}', b"\xff", b'{"texts": NaN}', b"9" * 10_000]
)
def test_a_malformed_body_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/v1/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_a_body_that_is_not_json_is_refused(client: TestClient) -> None:
    """A form of another site can send text/plain, but not application/json."""
    answer = client.post("/v1/translate", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_a_key_is_sent_as_a_bearer_token(lines: WordLines, tmp_path: Path) -> None:
    client = TestClient(make_app(lines, tmp_path, key="secret"))
    assert client.get("/v1/languages").status_code == 403
    assert client.get("/v1/languages", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert client.get("/openapi.json").json()["security"] == [{"key": []}]


def test_languages_and_detection(client: TestClient) -> None:
    answer = client.get("/v1/languages").json()
    assert {language["code"]: language["targets"] for language in answer["languages"]} == {"en": ["de"], "de": ["en"]}
    assert answer["limits"] == {"characters": 200, "texts": 3, "alternatives": 2}
    assert post(client, "/v1/detect", text="a").json() == {"detections": [{"language": "en", "confidence": 0.0}]}


def test_word_links_are_returned_on_request(client: TestClient) -> None:
    answer = post(client, "/v1/translate", texts=["the old house"], alignment=True, **PAIR)
    assert answer.json()["translations"][0]["sentences"][0]["links"] == [[0, 0], [1, 1], [2, 2]]


def test_the_probabilities_of_words_are_returned_on_request(client: TestClient) -> None:
    answer = post(client, "/v1/translate", texts=["the bark"], words=True, **PAIR)
    [sentence] = answer.json()["translations"][0]["sentences"]
    assert sentence["words"] == [0.9, 0.05]  # "bark" is uncertain there.


def test_a_translation_begins_with_the_prefix(client: TestClient) -> None:
    body = {"texts": ["The museum is closed on Mondays. Good morning."], "alternatives": 2, **PAIR}
    [answer] = post(client, "/v1/translate", prefix="Montags", **body).json()["translations"]
    assert answer["text"] == "Montags ist das Museum geschlossen. Guten Morgen."
    assert post(client, "/v1/translate", prefix="Das", **{**body, "texts": ["a", "b"]}).status_code == 400


def test_attention_is_answered_as_numbers_or_as_a_page(client: TestClient) -> None:
    answer = post(client, "/v1/attention", text="Good morning.", **PAIR)
    assert answer.status_code == 200
    values = AttentionAnswer.model_validate(answer.json())
    assert values.translation == "Guten Morgen."
    assert len(values.weights["encoder_self"][0][0]) == len(values.source)
    page = post(client, "/v1/attention", text="Good morning.", translation="Morgen!", format="html", **PAIR)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "Morgen!" in page.text
    # The policy of this response permits the scripts of the page, and nothing else.
    policy = page.headers["content-security-policy"]
    for script in re.findall(
        r"<(?:script|script type=\"module\"|style)>(.*?)</(?:script|style)>", page.text, re.DOTALL
    ):
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert "unsafe" not in policy
    assert "'self'" not in policy


@pytest.mark.parametrize(
    "body",
    [
        {"text": "", "translation": "Haus"},
        {"text": "house", "translation": ""},
        {"text": "w" * 100},
        {"text": "opaque"},
        {"text": "house", "target": "en"},
        {"text": "house", "target": "fr"},
    ],
)
def test_attention_that_cannot_be_shown_is_refused(client: TestClient, body: dict[str, str]) -> None:
    answer = post(client, "/v1/attention", **{**PAIR, **body})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
