"""Fixtures of a real browser, and of pages opened in it that must not cause errors, dialogs or requests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from dragoman.attention_page.map import AttentionMap
from dragoman.serving.limits import Limits
from tests.support.browser import Opener
from tests.support.serving_page import WordLines, make_app, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("needs Chromium: apt install chromium")
    # Chromium's sandbox does not work for root.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Return a function that opens the page of a map from disk.

    After the test, no page may have reported an error, logged a message, opened a dialog, or requested anything.
    """
    messages: list[str] = []
    requests: list[str] = []
    expected: set[str] = set()
    pages: list[Page] = []

    def on_dialog(dialog: Dialog) -> None:
        messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def opener(attention: AttentionMap, color_scheme: Literal["light", "dark"] = "light") -> Page:
        file = tmp_path / f"{len(pages)}.html"
        attention.save(file)
        page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme=color_scheme)
        page.set_default_timeout(5000)
        pages.append(page)
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("dialog", on_dialog)
        # The expected requests are the file and its icon, which is an empty data URL.
        page.on("request", lambda request: requests.append(request.url))
        expected.update((file.as_uri(), "data:,"))
        page.goto(file.as_uri())
        page.wait_for_selector("#tabs [aria-selected=true]")
        return page

    yield opener
    for page in pages:
        page.close()
    assert messages == []
    assert set(requests) <= expected


@pytest.fixture
def lines() -> WordLines:
    return WordLines()


@pytest.fixture
def open_translator(browser: Browser, lines: WordLines, tmp_path: Path) -> Iterator[Opener]:
    """Return a function that opens the page; afterwards no page may have logged anything or left the server."""
    messages: list[str] = []
    requests: list[str] = []
    contexts = []
    app = make_app(lines, tmp_path, limits=Limits(characters=5000))
    with serving(app) as address:

        def opener(path: str = "", *, width: int = 1280, dark: bool = False) -> Page:
            context = browser.new_context(
                viewport={"width": width, "height": 844},
                color_scheme="dark" if dark else "light",
                permissions=["clipboard-read", "clipboard-write"],
            )
            contexts.append(context)
            page = context.new_page()
            page.set_default_timeout(10_000)
            page.on("pageerror", lambda error: messages.append(f"error: {error}"))
            page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
            page.on("dialog", lambda dialog: messages.append(f"dialog: {dialog.message}"))
            page.on("request", lambda request: requests.append(request.url))
            page.goto(address + path)
            if not path:
                page.wait_for_selector("#source option", state="attached")
                page.select_option("#source", "en")
            return page

        yield opener
        for context in contexts:
            context.close()
        assert messages == []
        assert all(url.startswith((address, f"blob:{address}")) for url in requests), requests
