"""The page at / in Chromium: failures of the server, limits, keys, hostile text, closed storage."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.serving.limits import Limits
from tests.support.browser import GERMAN, TEXT, Opener, open_page_at, output, wait_for_output
from tests.support.serving_page import WordLines, make_app, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload


def test_attention_that_is_not_available_is_explained(browser: Browser, tmp_path: Path) -> None:
    with serving(make_app(WordLines(), tmp_path)) as address:
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#source option", state="attached")
        page.select_option("#source", "en")
        page.fill("#text", "opaque")
        wait_for_output(page, "opaque")
        page.click("#show-attention")
        page.get_by_role("alert").get_by_text("This model has no attention").wait_for()
        page.keyboard.press("Escape")
        assert page.locator("#attention").is_hidden()
        page.close()


def test_hostile_text_is_shown_as_text(open_translator: Opener) -> None:
    page = open_translator(width=390)
    text = "<script>alert(1)</script><img src=x onerror=alert(2)> \u202etxet {{files}} " + "w" * 500
    page.fill("#text", text)
    wait_for_output(page, text)
    page.locator(".sentence").first.click()
    page.locator(".choice").first.wait_for()
    page.locator(".entry").wait_for()
    assert page.locator("main script, main img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_text_that_utf8_cannot_represent_is_translated(open_translator: Opener) -> None:
    page = open_translator()
    page.evaluate("document.getElementById('text').value = 'old \\ud800 house'")
    page.locator("#text").dispatch_event("input")
    wait_for_output(page, "alt \ufffd Haus")


def test_a_history_of_something_else_is_ignored(open_translator: Opener) -> None:
    page = open_translator()
    page.evaluate("localStorage.setItem('dragoman.history', '[null, 1, {\"text\": 2}]')")
    page.reload()
    page.wait_for_selector("#source option", state="attached")
    assert page.locator(".entry").count() == 0


def test_a_text_over_the_limit_is_refused(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    text = "The museum is closed. " * 300
    page.fill("#text", text)
    page.get_by_role("alert").get_by_text("at most 5,000 characters").wait_for()
    assert page.locator("#text").get_attribute("aria-invalid") == "true"
    assert page.locator("#retry").is_hidden()
    assert output(page) == ""
    page.click("#swap")
    assert page.input_value("#text") == text
    page.fill("#text", "It works slowly.")
    assert page.locator("#problem").is_hidden()
    page.click("#clear")
    assert page.locator("#problem").is_hidden()
    assert page.locator("#placeholder").is_visible()


def test_a_failed_request_is_reported_and_the_next_one_succeeds(browser: Browser, tmp_path: Path) -> None:
    with serving(make_app(WordLines(), tmp_path, key="secret")) as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("#source option", state="attached")
        page.select_option("#source", "en")
        page.fill("#text", "unlucky")
        page.get_by_role("alert").get_by_text("the worker stopped").wait_for()
        page.get_by_role("button", name="Try again").click()
        page.get_by_role("alert").get_by_text("the worker stopped").wait_for()
        page.fill("#text", "Good morning.")
        wait_for_output(page, "Guten Morgen.")
        assert page.get_by_role("alert").count() == 0
        page.close()


def test_a_refused_request_is_sent_again_after_the_time_that_the_server_gives(browser: Browser, tmp_path: Path) -> None:
    with serving(make_app(WordLines(), tmp_path)) as address:
        page = open_page_at(browser, address)
        page.fill("#text", "The old house. " * 100)
        page.wait_for_function("() => !document.getElementById('copy').disabled")
        refused = {"status": 429, "headers": {"Retry-After": "2"}, "json": {"error": {"message": "too many requests"}}}
        page.route("**/v1/translate/stream", lambda route: route.fulfill(**refused), times=1)
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.locator("#text").press_sequentially("and")
        page.get_by_role("alert").get_by_text("Too many requests. Trying again in 2 seconds").wait_for()
        # The message is seen, and the former translation stays.
        box = page.locator("#problem").bounding_box()
        assert box
        assert 0 <= box["y"] < 700
        assert output(page).startswith("das alt house.")
        page.wait_for_function("() => document.getElementById('output').textContent.endsWith('und')")
        assert page.locator("#problem").is_hidden()
        page.close()


def test_files_wait_for_the_server_and_report_that_it_is_gone(browser: Browser, tmp_path: Path) -> None:
    file: FilePayload = {"name": "a.txt", "mimeType": "text/plain", "buffer": b"Good morning."}
    with serving(make_app(WordLines(), tmp_path)) as address:
        page = open_page_at(browser, address)
        refused = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": {"message": "full"}}}
        page.route("**/v1/translate", lambda route: route.fulfill(**refused), times=1)
        page.set_input_files("#file", file)
        page.get_by_text("Waiting for the server").wait_for()
        page.get_by_role("link", name="Download a.de.txt").wait_for()
        page.set_input_files("#file", {"name": "b.txt", "mimeType": "text/plain", "buffer": b"It works slowly."})
        page.get_by_role("button", name="Cancel b.txt").press("Enter")
        assert page.evaluate("document.activeElement.id") == "files-title"
        page.locator("#files-list").get_by_text("Cancelled.").wait_for()
    page.set_input_files("#file", file)
    page.locator("#files-list").get_by_text("The server cannot be reached.").wait_for()
    page.close()


def test_a_key_is_asked_for_before_anything_else(browser: Browser, tmp_path: Path) -> None:
    with serving(make_app(WordLines(), tmp_path, key="secret")) as address:
        page = browser.new_page()
        page.goto(address)
        page.get_by_label("API key").fill("wrong")
        assert page.locator("#problem").is_hidden()
        assert page.locator("#text").is_hidden()
        page.keyboard.press("Enter")
        page.locator("#key-form").get_by_text("The server does not accept this key.").wait_for()
        assert page.locator("#problem").is_hidden()
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        page.locator("#text").wait_for()
        assert page.evaluate("document.activeElement.id") == "text"
        page.close()


def test_a_browser_that_keeps_nothing_translates(browser: Browser, tmp_path: Path) -> None:
    errors: list[str] = []
    with serving(make_app(WordLines(), tmp_path, limits=Limits())) as address:
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.add_init_script(
            "Object.defineProperty(window, 'localStorage', { get() { throw new DOMException('', 'SecurityError'); } })"
        )
        page.goto(address)
        page.wait_for_selector("#source option", state="attached")
        page.select_option("#source", "en")
        page.click("#theme")
        page.fill("#text", TEXT)
        wait_for_output(page, GERMAN)
        page.close()
    assert errors == []
