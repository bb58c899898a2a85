"""The served page: several heads are switched off together, and requests from elsewhere are rejected."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from dragoman.attention_page.kinds import Head
from dragoman.errors import SettingsError
from dragoman.serving.attention_server import MAX_BODY_BYTES, AttentionServer
from tests.support.small_translator import random_translator

if TYPE_CHECKING:
    from playwright.sync_api import Browser

HEADS = [Head("encoder_self", 0, 1), Head("encoder_decoder", 0, 0)]


@pytest.fixture(scope="module")
def server() -> Iterator[AttentionServer]:
    translator = random_translator()
    attention = translator.attention("the lamp is on", "the door is open", without_heads=True)
    with AttentionServer(translator.translate_without, attention) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def post(
    server: AttentionServer, body: bytes, headers: dict[str, str] | None = None, path: str = "/without"
) -> tuple[int, bytes]:
    """Send a request, and return status and body of the response."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=10)  # type: ignore[arg-type]
    connection.request("POST", path, body, {"Content-Type": "application/json", **(headers or {})})
    response = connection.getresponse()
    status_and_body = response.status, response.read()
    connection.close()
    return status_and_body


def test_several_heads_are_switched_off_with_shift(server: AttentionServer, browser: Browser) -> None:
    page = browser.new_page()
    messages: list[str] = []
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("console", lambda message: messages.append(message.text))
    page.goto(server.url)
    page.click("#tab-what-if")
    panel = page.locator("#panel-what-if")
    cells = panel.locator("section").filter(has=page.locator("table.what-if"))
    cells.nth(0).locator("td button").nth(1).click()
    cells.nth(2).locator("td button").nth(0).click(modifiers=["Shift"])
    panel.get_by_role("heading", name="Without 2 heads").wait_for()
    translation, log_probability = server.without(server.attention, HEADS)
    assert log_probability is not None
    assert server.attention.log_probability is not None
    change = f"{log_probability - server.attention.log_probability:+.2f}".replace("-", "−")
    assert f"({change})" in panel.locator(".change").inner_text()
    assert panel.locator("dd").nth(1).inner_text() == (translation or "(empty)")
    assert panel.locator("td button[aria-pressed=true]").count() == 2
    # A second click with Shift switches a head on again.
    cells.nth(0).locator("td button").nth(1).click(modifiers=["Shift"])
    assert panel.locator(".result h3").inner_text() == "Without encoder–decoder attention, layer 1, head 1"
    assert messages == []
    page.close()


def test_responses_for_one_head_equal_the_results_in_the_map(server: AttentionServer) -> None:
    for result in server.attention.without[:3]:
        status, body = post(server, json.dumps([result.head]).encode())
        assert status == 200
        assert json.loads(body) == {
            "translation": result.translation,
            "logProbability": pytest.approx(result.log_probability, abs=1e-3),
        }


@pytest.mark.parametrize(
    ("body", "headers", "path", "status"),
    [
        (b"[", {}, "/without", 400),
        (b"[" * 30_000, {}, "/without", 400),
        (b"{}", {}, "/without", 400),
        (b'[["encoder_self", 0, 99]]', {}, "/without", 400),
        (b'[["encoder_self", true, 0]]', {}, "/without", 400),
        (b'[["__class__", 0, 0]]', {}, "/without", 400),
        (b"\xff", {}, "/without", 400),
        (b"[]", {"Content-Type": "text/plain"}, "/without", 415),
        (b"[]", {"Content-Length": "-1"}, "/without", 413),
        (b"[]", {"Content-Length": str(MAX_BODY_BYTES + 1)}, "/without", 413),
        (b"[]", {"Host": "evil.example"}, "/without", 404),
        (b"[]", {}, "/../etc/passwd", 404),
    ],
)
def test_other_requests_are_rejected(
    server: AttentionServer, body: bytes, headers: dict[str, str], path: str, status: int
) -> None:
    assert post(server, body, headers, path)[0] == status
    assert post(server, b"[]")[0] == 200


def test_a_port_in_use_is_reported(server: AttentionServer) -> None:
    with pytest.raises(SettingsError, match="cannot use port"):
        AttentionServer(server.without, server.attention, server.server_address[1])
