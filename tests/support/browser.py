"""Types of fixtures of the browser tests, and what the tests of the translation page share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Type of the fixture `open_page`, which opens the page of an attention map.
Opener = Callable[..., "Page"]

TEXT = "Good morning, everyone. The museum is closed on Mondays.\n\nThe bark of the old tree fell silent."
GERMAN = "Guten Morgen allerseits. Das Museum ist montags geschlossen.\n\nDie Rinde des alten Baumes verstummte."


def open_page_at(browser: Browser, address: str) -> Page:
    """Return the translation page of a server, for English."""
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    page.set_default_timeout(10_000)
    page.goto(address)
    page.wait_for_selector("#source option", state="attached")
    page.select_option("#source", "en")
    return page


def output(page: Page) -> str:
    """Return the translation that the page shows."""
    return str(page.locator("#output").evaluate("element => element.textContent"))


def wait_for_output(page: Page, text: str) -> None:
    """Wait until a translation is complete."""
    page.wait_for_function(
        """text => document.getElementById("output").textContent === text &&
            document.getElementById("copy").disabled === (text === "") && !document.body.classList.contains("busy")""",
        arg=text,
    )
