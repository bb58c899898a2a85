"""The page at / in Chromium: by keyboard, with a screen reader, on a phone; axe-core."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import GERMAN, TEXT, Opener, wait_for_output

if TYPE_CHECKING:
    from playwright.sync_api import Page

AXE = "axe-core@4.14.1"


def test_sentences_are_reached_by_the_arrow_keys(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator("#status", has_text="Translation: Guten").wait_for(state="attached")
    assert page.locator("#status span").get_attribute("lang") == "de"
    # Text that is selected elsewhere does not matter.
    page.evaluate("getSelection().selectAllChildren(document.querySelector('.sentence'))")
    page.focus("#clear")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Guten Morgen allerseits."
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") == "Das Museum ist montags geschlossen."
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    linked = page.locator("#backdrop .word.linked")
    linked.wait_for()
    assert linked.inner_text() == "museum"
    page.keyboard.press("Enter")
    page.locator("#status", has_text="2 alternatives.").wait_for(state="attached")
    # The heading has the focus, visibly, and the links of the word stay.
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert page.evaluate("document.activeElement.id") == "choices-title"
    linked.wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "copy"


def test_a_long_translation_is_not_read_aloud(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "The old house is red and good. " * 20)
    page.locator("#status").get_by_text("Translated: 20 sentences.").wait_for(state="attached")
    assert page.locator("#output").get_attribute("aria-busy") == "false"


def test_copying_that_the_browser_does_not_permit_is_reported(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.locator("#copy").press("Enter")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("document.activeElement.id") == "copy"
    page.get_by_role("button", name="Copy").wait_for()
    page.evaluate("document.execCommand = () => false")
    page.locator("#copy").press("Enter")
    page.get_by_role("button", name="Selected").wait_for()
    assert page.evaluate("getSelection().toString()") == "Guten Morgen."


@pytest.mark.parametrize("width", [1280, 390])
def test_alternatives_open_on_the_screen_in_a_long_text(open_translator: Opener, width: int) -> None:
    page = open_translator(width=width)
    page.fill("#text", "The old house is red and good. " * 100)
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    if width == 390:
        # The translation begins on the screen.
        box = page.locator("#output").bounding_box()
        assert box
        assert box["y"] < 600
    page.locator(".sentence").nth(5).locator(".word").nth(1).click()
    page.locator(".choice").nth(1).wait_for()
    for selector in (".sentence >> nth=5", ".choice >> nth=1", "#choices-close", "#copy"):
        box = page.locator(selector).bounding_box()
        assert box
        assert 0 <= box["y"] < 844
    # The panel does not cover the word.
    page.click("#choices-close")
    page.locator(".sentence").last.locator(".word").last.click()
    page.locator("#choices-list").get_by_text("score").first.wait_for()
    word = page.locator(".sentence").last.locator(".word").last.bounding_box()
    panel = page.locator("#choices").bounding_box()
    assert word
    assert panel
    assert word["y"] + word["height"] <= panel["y"]


def test_a_phone_has_large_targets_and_nothing_beside_the_screen(open_translator: Opener) -> None:
    page = open_translator(width=390)
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.set_input_files("#file", {"name": "n" * 80, "mimeType": "text/plain", "buffer": b"Good morning."})
    page.get_by_role("link", name="Download").wait_for()
    page.locator(".entry").wait_for()
    page.locator("#output .word").nth(2).click()
    page.locator(".choice").nth(1).wait_for()
    heights = page.evaluate(
        """() => [...document.querySelectorAll("button, a, select, .switch")].filter((each) => each.offsetHeight)
            .map((each) => [each.id || each.textContent, each.offsetHeight])"""
    )
    assert [each for each in heights if each[1] < 44] == []
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    docs = open_translator("docs", width=390)
    docs.locator("#schemas section").first.wait_for()
    assert docs.evaluate("document.documentElement.scrollWidth") == 390
    assert docs.evaluate("[...document.querySelectorAll('.scroll')].filter((e) => e.scrollWidth > e.clientWidth)") == []


def test_links_and_switches_are_visible_in_forced_colours(open_translator: Opener) -> None:
    page = open_translator()
    page.emulate_media(forced_colors="active")
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator("#output .word", has_text="Museum").hover()
    page.locator("#backdrop .word.linked").wait_for()
    assert page.locator("#backdrop .word.linked").evaluate("e => getComputedStyle(e).outlineStyle") == "solid"
    assert page.locator("#keep").evaluate("e => getComputedStyle(e).appearance") == "auto"


def test_each_line_has_its_own_direction_on_both_sides(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "Good morning.\n\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd.")
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    page.locator("#output .word").last.hover()
    for side in ("#backdrop", "#output"):
        box = page.locator(f"{side} .word").last.bounding_box()
        pane = page.locator(side).bounding_box()
        assert box
        assert pane
        assert box["x"] > pane["x"] + pane["width"] / 2


@pytest.fixture(scope="module")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from the registry of npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("needs npm: apt install npm")
    folder = tmp_path_factory.mktemp("axe")
    command = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), AXE]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        pytest.skip(f"needs the registry of npm: {done.stderr.strip()[-200:]}")
    return (folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_no_violation(open_translator: Opener, axe: str, width: int, dark: bool) -> None:
    page = open_translator(width=width, dark=dark)
    assert violations(page, axe) == []
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator(".entry").wait_for()
    page.locator("#output .word", has_text="Museum").click()
    page.locator(".choice").nth(1).wait_for()
    assert violations(page, axe) == []
    page.click("#show-attention")
    page.frame_locator("#attention iframe").get_by_role("tab", name="Heads", exact=True).wait_for()
    assert violations(page, axe, "#attention") == []
    assert violations(open_translator("docs", width=width, dark=dark), axe, "#schemas section") == []


def violations(page: Page, axe: str, ready: str = "main") -> list[str]:
    page.locator(ready).first.wait_for()
    # Evaluated by the debugger, to which the content security policy does not apply.
    page.evaluate(axe)
    result = page.evaluate("axe.run()")
    return [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in result["violations"]]
