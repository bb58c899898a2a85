"""The page at / in Chromium: typing, streaming, alternatives, links, attention, files, history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.browser import GERMAN, TEXT, Opener, open_page_at, output, wait_for_output
from tests.support.serving_page import WordLines, make_app, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FilePayload, Request


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
    page.locator("#choices-list").get_by_text("no other way to continue").wait_for()
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
    page.click("#theme")
    page.click("#theme")
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    page.click("#show-attention")
    frame = page.frame_locator("#attention iframe")
    # The scripts of the page run under the content security policy of the server.
    frame.get_by_role("tab", name="Heads", exact=True).wait_for()
    assert frame.locator("#text").inner_text() == "Good morning, everyone."
    assert frame.locator("html").get_attribute("data-theme") == "dark"
    page.locator("#attention-close").press("Alt+s")
    assert page.input_value("#source") == "en"
    page.get_by_role("button", name="Next sentence").click()
    frame.locator("#text", has_text="The museum is closed on Mondays.").wait_for()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save").click()
    assert "The museum is closed on Mondays." in download.value.path().read_text(encoding="utf-8")
    # In the frame, Escape releases a pinned item before it closes the dialog.
    frame.get_by_role("tab", name="Heads", exact=True).press("Escape")
    page.locator("#attention").wait_for(state="hidden")
    page.locator("#attention iframe").wait_for(state="detached")


def test_uncertain_words_are_marked(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", TEXT)
    wait_for_output(page, GERMAN)
    assert page.locator(".uncertain").all_inner_texts() == ["Rinde"]
    sentence = page.locator(".sentence", has=page.locator(".uncertain"))
    assert sentence.get_attribute("aria-description") == "Uncertain words: Rinde"


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


def test_a_change_of_a_long_text_translates_the_sentences_around_it_only(
    open_translator: Opener, lines: WordLines
) -> None:
    page = open_translator()
    text = "\n".join(f"The old house {n} is red. The house {n} is good.  It is old." for n in range(20))
    page.fill("#text", text)
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    lines.began.clear()
    page.evaluate("document.getElementById('text').setSelectionRange(65, 65)")
    page.locator("#text").press_sequentially("and ")
    page.wait_for_function("() => document.getElementById('output').textContent.includes('und ')")
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    assert {line for line in lines.began if "and" not in line} <= {
        "The house 0 is good.",
        "It is old.",
        "The old house 1 is red.",
        "The house 1 is good.",
    }
    page.keyboard.press("Control+End")
    page.locator("#text").press_sequentially(" Good morning.")
    page.wait_for_function("() => document.getElementById('output').textContent.endsWith('Guten Morgen.')")
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    assert "The house 18 is good." not in lines.began
    changed = output(page)
    page.select_option("#source", "auto")
    page.select_option("#source", "en")
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    assert output(page) == changed
    assert page.locator("#output .stale").count() == 0


def test_swapping_and_clearing_lose_nothing(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    page.fill("#text", "Good morning. It works slowly.")
    page.locator("#output .place:not(.stale)").wait_for()
    # Half of a translation can be neither copied nor swapped.
    assert page.locator("#copy").is_disabled()
    assert page.locator("#show-attention").is_disabled()
    page.click("#swap")
    assert page.input_value("#text") == "Good morning. It works slowly."
    page.keyboard.press("Alt+s")
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    # The letter that Option and S give on a Mac is typed.
    page.locator("#text").dispatch_event("keydown", {"key": "ß", "code": "KeyS", "altKey": True})
    assert page.input_value("#source") == "en"
    page.click("#swap")
    assert page.input_value("#text") == "Guten Morgen."
    assert page.evaluate("document.activeElement.id") == "swap"
    page.focus("#text")
    page.keyboard.press("Control+z")
    assert page.input_value("#text") == "Good morning."
    page.click("#clear")
    page.keyboard.press("Control+z")
    assert page.input_value("#text") == "Good morning."


def test_a_text_in_the_language_of_the_target_is_not_copied(open_translator: Opener) -> None:
    page = open_translator()
    page.select_option("#source", "auto")
    page.select_option("#target", "en")
    page.fill("#text", "Good morning, the museum is closed on Mondays.")
    page.locator("#placeholder").get_by_text("The text is already English.").wait_for()
    assert page.locator("#copy").is_disabled()
    page.wait_for_timeout(1600)
    assert page.locator(".entry").count() == 0


def test_the_language_of_a_long_text_is_detected_once(open_translator: Opener) -> None:
    page = open_translator()
    page.select_option("#source", "auto")
    page.select_option("#target", "de")
    page.fill("#text", "The old house is red and good. " * 10)
    page.wait_for_function("() => !document.getElementById('copy').disabled")
    with page.expect_request("**/v1/translate/stream") as request:
        page.locator("#text").press_sequentially("G")
    body = request.value.post_data_json
    assert body is not None
    assert body["source"] == "en"
    assert len(body["text"]) < 100
    page.select_option("#target", "en")
    page.locator("#placeholder").get_by_text("The text is already English.").wait_for()


def test_a_chosen_alternative_is_kept_in_the_history(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "Good morning.")
    wait_for_output(page, "Guten Morgen.")
    page.locator(".sentence").click()
    page.locator(".choice", has_text="Guten Tag.").click()
    page.locator(".entry", has_text="Guten Tag.").wait_for()
    # It is kept while the text is typed further, too.
    page.fill("#text", "Good morning. The house. And good.")
    wait_for_output(page, "Guten Tag. das house. und good.")
    page.locator(".entry", has_text="Guten Tag.").last.click()
    page.wait_for_function("() => document.getElementById('output').textContent.startsWith('Guten Tag.')")


def test_links_that_failed_are_loaded_when_a_word_is_pointed_at_again(browser: Browser, tmp_path: Path) -> None:
    with serving(make_app(WordLines(), tmp_path)) as address:
        page = open_page_at(browser, address)
        page.fill("#text", TEXT)
        wait_for_output(page, GERMAN)
        page.route("**/v1/translate", lambda route: route.fulfill(status=503, json={"error": {"message": "full"}}))
        with page.expect_response("**/v1/translate"):
            page.locator("#output .word", has_text="Museum").hover()
        page.unroute("**/v1/translate")
        page.mouse.move(0, 0)
        assert page.locator("#problem").is_hidden()
        page.locator("#output .word", has_text="Museum").hover()
        page.locator("#backdrop .word.linked", has_text="museum").wait_for()
        page.close()


def test_words_of_a_script_without_spaces_are_found(open_translator: Opener) -> None:
    page = open_translator()
    page.fill("#text", "今日は良い天気です。")
    wait_for_output(page, "今日は良い天気です。")
    words = page.locator("#output .word").all_inner_texts()
    assert len(words) > 3
    assert "".join(words) == "今日は良い天気です。"
    page.locator("#output .word").nth(2).click()
    page.locator(".choice .kept").first.wait_for()
    assert page.locator(".choice .kept").first.inner_text() == "".join(words[:2])


def test_several_files_are_translated_in_parts(open_translator: Opener) -> None:
    page = open_translator()
    page.select_option("#source", "auto")
    page.select_option("#target", "de")
    bodies: list[dict[str, Any]] = []

    def keep_body(request: Request) -> None:
        if request.post_data_json is not None:
            bodies.append(request.post_data_json)

    page.on("request", keep_body)
    # One line is longer than a request may be.
    long = b"The museum is closed on Mondays. " * 300
    files: list[FilePayload] = [
        {"name": f"{n}.txt", "mimeType": "text/plain", "buffer": long if n == 0 else b"Good morning."} for n in range(4)
    ]
    page.set_input_files("#file", files)
    page.get_by_role("link", name="Download").nth(3).wait_for()
    assert [body["source"] for body in bodies if len(body["texts"][0]) > 100] == ["auto", "en", "en"]
    with page.expect_download() as download:
        page.get_by_role("link", name="Download 0.de.txt").click()
    assert download.value.path().read_text(encoding="utf-8").count("Das Museum ist montags geschlossen. ") == 300


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
