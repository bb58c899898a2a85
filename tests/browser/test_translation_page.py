"""The page at / in Chromium: typing, streaming, alternatives, links, files, history, hostile text, accessibility."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dragoman.serving.limits import Limits
from tests.support.serving_page import WordLines, make_app, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

AXE = "axe-core@4.14.1"
TEXT = "Good morning, everyone. The museum is closed on Mondays.\n\nThe bark of the old tree fell silent."
GERMAN = "Guten Morgen allerseits. Das Museum ist montags geschlossen.\n\nDie Rinde des alten Baumes verstummte."
Opener = Callable[..., "Page"]


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


def output(page: Page) -> str:
    return page.locator("#output").evaluate("element => element.textContent")


def wait_for_output(page: Page, text: str) -> None:
    page.wait_for_function(
        "text => document.getElementById('output').textContent === text && !document.body.classList.contains('busy')",
        arg=text,
    )


def test_text_is_translated_while_it_is_typed(open_translator: Opener) -> None:
    page = open_translator()
    page.locator("#text").press_sequentially("Good morning.", delay=10)
    wait_for_output(page, "Guten Morgen.")
    assert page.locator("#count").inner_text() == "13 / 5,000"
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    # The result is read aloud once it has settled.
    page.locator("#status", has_text=GERMAN.split("\n")[0]).wait_for(state="attached")
    page.click("#clear")
    wait_for_output(page, "")
    assert page.locator("#copy").is_disabled()


def test_finished_sentences_are_shown_and_a_change_gives_up_the_others(
    open_translator: Opener, lines: WordLines
) -> None:
    page = open_translator()
    page.fill("#text", "Good morning. It works slowly.")
    page.wait_for_function("() => document.getElementById('output').textContent.trim() === 'Guten Morgen.'")
    assert page.locator("body.busy").count() == 1
    assert lines.cancelled == []
    page.fill("#text", "The museum is closed on Mondays.")
    wait_for_output(page, "Das Museum ist montags geschlossen.")
    assert [line.strip() for line in lines.cancelled] == ["It works slowly."]


def test_languages_are_detected_and_swapped(open_translator: Opener) -> None:
    page = open_translator()
    page.select_option("#source", "auto")
    page.select_option("#target", "de")
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    assert page.locator("#source option:checked").inner_text() == "English (detected)"
    page.keyboard.press("Alt+s")
    assert page.input_value("#text") == "Guten Morgen."
    assert (page.input_value("#source"), page.input_value("#target")) == ("de", "en")
    page.reload()
    page.wait_for_selector("#source option", state="attached")
    page.wait_for_function("() => document.getElementById('source').value === 'de'")


def test_a_sentence_is_replaced_by_an_alternative_from_the_keyboard(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator(".sentence").nth(1).focus()
    page.keyboard.press("Enter")
    choices = page.locator(".choice")
    choices.nth(2).wait_for()
    assert choices.nth(0).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    assert page.locator("#choices").is_hidden()
    page.keyboard.press("Enter")
    # Outputs that begin with another word come first.
    choices.nth(1).focus()
    page.keyboard.press("Enter")
    assert output(page) == GERMAN.replace("Das Museum ist montags geschlossen.", "Montags ist das Museum geschlossen.")
    assert page.evaluate("document.activeElement.className") == "sentence"
    page.click("#copy")
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == output(page)


def test_a_click_on_a_word_keeps_what_is_before_it_and_continues_another_way(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator("#output .word", has_text="montags").click()
    page.get_by_role("heading", name="Alternatives from “montags” on").wait_for()
    page.get_by_text("no other way to continue").wait_for()
    assert page.locator(".choice .kept").all_inner_texts() == ["Das Museum ist"]
    assert page.locator("#output .word.kept").all_inner_texts() == ["Das", "Museum", "ist"]
    page.locator("#output .word", has_text="ist").nth(0).click()
    choices = page.locator(".choice")
    choices.nth(1).wait_for()
    assert page.locator(".choice .kept").all_inner_texts() == ["Das Museum"] * 2
    choices.nth(1).click()
    assert output(page) == GERMAN.replace("ist montags", "hat montags")


def test_a_word_is_chosen_by_the_arrow_keys(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator(".sentence").nth(1).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.locator("#status").text_content() == "ist"
    page.keyboard.press("Enter")
    page.locator(".choice").nth(1).wait_for()
    assert page.locator(".choice .kept").first.inner_text() == "Das Museum"


def test_the_attention_page_of_a_sentence_is_one_click_away(open_translator: Opener) -> None:
    page = open_translator()
    assert page.locator("#show-attention").is_hidden()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.click("#show-attention")
    frame = page.frame_locator("#attention iframe")
    # The scripts of the page run under the content security policy of the server.
    frame.get_by_role("tab", name="Heads", exact=True).wait_for()
    assert frame.locator("#text").inner_text() == "Good morning, everyone."
    page.get_by_role("button", name="Next sentence").click()
    frame.locator("#text", has_text="The museum is closed on Mondays.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save").click()
    assert "The museum is closed on Mondays." in download.value.path().read_text(encoding="utf-8")
    page.click("#attention-close")
    assert page.locator("#attention").is_hidden()
    page.locator("#attention iframe").wait_for(state="detached")


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


def test_uncertain_sentences_are_marked_with_their_score(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    assert page.locator(".uncertain").all_inner_texts() == ["Die Rinde des alten Baumes verstummte."]
    assert page.locator(".uncertain").get_attribute("title") == "Uncertain: score −4.50."


def test_the_confidence_of_a_calibrated_model_is_shown(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "The museum is closed on Mondays. Nobody knew the tune.")
    wait_for_output(page, "Das Museum ist montags geschlossen. Nobody knew das tune.")
    assert page.locator(".uncertain").all_inner_texts() == ["Nobody knew das tune."]
    assert page.locator(".uncertain").get_attribute("title") == "Uncertain: confidence 12 %."
    page.locator(".sentence").nth(0).focus()
    page.keyboard.press("Enter")
    assert page.locator("#choices-confidence").inner_text().startswith("Confidence 62 %:")
    page.locator(".choice").nth(1).click()
    page.keyboard.press("Enter")
    # What the reader chose has no confidence.
    page.locator("#choices").wait_for()
    assert page.locator("#choices-confidence").is_hidden()


def test_linked_words_are_highlighted_on_both_sides(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.locator("#output .word", has_text="Museum").hover()
    linked = page.locator("#backdrop .word.linked")
    linked.wait_for()
    assert linked.all_inner_texts() == ["museum"]
    # The words behind the text area lie where it shows them.
    box = page.locator("#backdrop .word", has_text="tree").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.locator("#output .word.linked").wait_for()
    assert page.locator("#output .word.linked").count() == 1


def test_a_file_is_translated_and_given_back(open_translator: Opener) -> None:
    page = open_translator()
    text = "Good morning.\n\n" * 400
    page.set_input_files("#file", {"name": "notes.txt", "mimeType": "text/plain", "buffer": text.encode()})
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "notes.de.txt"
    assert download.value.path().read_text(encoding="utf-8").count("Guten Morgen.") == 400
    page.set_input_files("#file", {"name": "photo.txt", "mimeType": "text/plain", "buffer": b"\xff\xd8\x00"})
    page.get_by_text("This is not a text file in UTF-8.", exact=True).wait_for()


def test_a_dropped_file_is_translated(open_translator: Opener) -> None:
    page = open_translator()
    page.evaluate(
        """() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(["Good morning."], "drop.txt", { type: "text/plain" }));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true }));
        }"""
    )
    page.get_by_role("link", name="Download").wait_for()


def test_history_stays_in_the_browser_and_can_be_deleted_and_switched_off(open_translator: Opener) -> None:
    page = open_translator()
    for text in ["Good morning", "Good morning.", "The old house"]:
        page.fill("#text", text)
        page.locator("#history-list .line").get_by_text(text, exact=True).wait_for()
    # A text that is typed further replaces its beginning.
    assert page.locator(".entry").count() == 2
    page.reload()
    page.locator(".entry").nth(1).click()
    wait_for_output(page, "Guten Morgen.")
    page.click("#forget")
    assert page.locator(".entry").count() == 0
    page.uncheck("#keep")
    page.fill("#text", "The red house")
    page.locator("#status", has_text="Translation: das rot Haus").wait_for(state="attached")
    assert page.evaluate("localStorage.getItem('dragoman.history')") == "[]"


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
