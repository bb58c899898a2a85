"""The attention page in a real browser: numbers, mouse and keyboard, hostile text, and security policy."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from jaxtyping import Float

from dragoman.attention_page.kinds import Kind
from dragoman.attention_page.map import AttentionMap
from dragoman.attention_page.statistics import measure
from tests.support.browser import Opener
from tests.support.made_attention import made_attention
from tests.support.small_language import random_analyzer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

VIEWS = ("heads", "overview", "query-key", "graph", "translation", "what-if")
# The page shows percentages with one decimal place, computed from float16.
ROUNDING = 0.0008


def open_view(page: Page, view: str) -> Locator:
    page.click(f"#tab-{view}")
    panel = page.locator(f"#panel-{view}")
    panel.locator("h2").wait_for()
    return panel


def shares(texts: list[str]) -> list[float]:
    """Convert texts like "12.3%" to numbers."""
    return [float(text.removesuffix("%")) / 100 for text in texts]


def choose(panel: Locator, label: str, option: str) -> None:
    panel.get_by_role("radiogroup", name=label, exact=True).get_by_role("radio", name=option, exact=True).click()


def weights_of(attention: AttentionMap, kind: Kind = "encoder_self") -> Float[np.ndarray, "N H T S"]:
    return dict(attention.kinds())[kind].weights


def inked(canvas: Locator) -> int:
    """Return the number of pixels of a canvas that are not transparent."""
    count = """(canvas) => {
        const { width, height } = canvas;
        const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        return copy.getImageData(0, 0, width, height).data.filter((value, i) => i % 4 === 3 && value).length;
    }"""
    return int(canvas.evaluate(count))


@pytest.mark.parametrize(
    "attention",
    [
        pytest.param(made_attention(), id="all"),
        pytest.param(made_attention(details=False, extras=False), id="weights alone"),
        pytest.param(made_attention(kinds=["encoder_decoder"], layers=1, heads=1, details=False), id="recurrent"),
        pytest.param(made_attention(kinds=["encoder_decoder"], heads=1, width=300), id="convolutional"),
        pytest.param(made_attention(["</s>"], [], text="", translation="", heads=1), id="one token"),
        pytest.param(made_attention(heads=16, layers=1), id="many heads"),
    ],
)
def test_every_view_opens(open_page: Opener, attention: AttentionMap) -> None:
    page = open_page(attention)
    for view in VIEWS:
        panel = open_view(page, view)
        assert panel.is_visible()
        assert page.locator("section.panel:visible").count() == 1
        # The view contains a picture or table, or a note that explains how to include the data.
        assert panel.locator("canvas:visible, svg:visible, table:visible, .note:visible").count() > 0
        assert page.locator("#text").inner_text() == attention.text


def test_notes_explain_missing_data(open_page: Opener) -> None:
    page = open_page(made_attention(details=False, extras=False, kinds=["encoder_decoder"]))
    for view, word in {
        "query-key": "details=True",
        "graph": "no self-attention",
        "translation": "candidates=5",
        "what-if": "without_heads=True",
    }.items():
        assert word in open_view(page, view).locator(".note").inner_text()
    page = open_page(made_attention(kinds=["encoder_self"]))
    assert "no encoder–decoder attention" in open_view(page, "translation").locator(".note").inner_text()


def test_pointing_at_a_token_shows_its_weights(open_page: Opener) -> None:
    attention = made_attention()
    panel = open_view(open_page(attention), "heads")
    choose(panel, "Layer", "1")
    expected = weights_of(attention)[0].mean(0)
    panel.locator(".query button[data-index='2']").hover()
    assert shares(panel.locator(".key .amount").all_inner_texts()) == pytest.approx(expected[2], abs=ROUNDING)
    panel.locator(".key button[data-index='4']").hover()
    assert shares(panel.locator(".query .amount").all_inner_texts()) == pytest.approx(expected[:, 4], abs=ROUNDING)
    # The tables: what "ght" attends to, and which tokens attend to it.
    attends, attended = (
        shares(panel.locator(".weights").nth(table).locator("td.mean").all_inner_texts()) for table in (0, 1)
    )
    assert attends == pytest.approx(sorted(expected[4], reverse=True), abs=ROUNDING)
    assert attended == pytest.approx(sorted(expected[:, 4], reverse=True), abs=ROUNDING)
    announcement = panel.page.locator("#announcement").inner_text()
    best = attention.source[expected[4].argmax()].lstrip("▁")
    assert f"ght attends to {best} {100 * attends[0]:.1f}%" in announcement


def test_heads_and_tokens_are_selected_by_keyboard(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "heads")
    panel.get_by_role("radio", name="Encoder–decoder").focus()
    panel.get_by_role("radio", name="Encoder", exact=True).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert panel.get_by_role("radio", name="Encoder–decoder").get_attribute("aria-checked") == "true"
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert panel.get_by_role("radio", name="1", exact=True).get_attribute("aria-checked") == "true"
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    pressed = panel.get_by_role("button", pressed=True).all_inner_texts()
    assert pressed == ["3"]
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowDown")
    expected = weights_of(attention, "encoder_decoder")[0, 2, 1]
    assert shares(panel.locator(".key .amount").all_inner_texts()) == pytest.approx(expected, abs=ROUNDING)
    # Move to the token with the same index in the other column; Enter pins it while the layer changes.
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    choose(panel, "Layer", "2")
    expected = weights_of(attention, "encoder_decoder")[1, 2, :, 1]
    assert shares(panel.locator(".query .amount").all_inner_texts()) == pytest.approx(expected, abs=ROUNDING)


def test_hidden_heads_are_not_drawn(open_page: Opener) -> None:
    panel = open_view(open_page(made_attention()), "heads")
    canvas = panel.locator(".lines canvas").first
    full = canvas.evaluate("c => c.toDataURL()")
    ink = inked(canvas)
    assert ink > 0
    panel.get_by_role("button", name="Head 2").dblclick()
    assert panel.get_by_role("button", pressed=True).all_inner_texts() == ["2"]
    assert 0 < inked(canvas) < ink
    panel.get_by_role("button", name="Head 3").click()
    assert panel.get_by_role("button", pressed=True).all_inner_texts() == ["2", "3"]
    panel.get_by_role("button", name="all").click()
    assert canvas.evaluate("c => c.toDataURL()") == full


def test_a_long_sentence_can_be_pointed_at(open_page: Opener) -> None:
    tokens = [f"▁word{number}" for number in range(99)]
    attention = made_attention([*tokens, "</s>"], tokens, layers=1, heads=8)
    panel = open_view(open_page(attention), "heads")
    panel.locator(".query button[data-index='70']").hover()
    expected = weights_of(attention)[0].mean(0)[70]
    assert shares(panel.locator(".key .amount").all_inner_texts()) == pytest.approx(expected, abs=ROUNDING)
    assert "88 more tokens" in panel.locator(".weights .rest").first.inner_text()


def test_a_thumbnail_opens_a_large_map(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "overview")
    assert panel.locator(".thumbnail").count() == 8
    panel.get_by_role("button", name="Layer 1, head 1").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert panel.locator(".large h3").inner_text().startswith("Layer 2, head 2:")
    page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    weight = weights_of(attention)[1, 1, 2, 1]
    readout = panel.locator(".readout").inner_text()
    assert readout.startswith("was → lamp: ")
    assert shares([readout.split(": ")[1]]) == pytest.approx([weight], abs=ROUNDING)
    # The same cell under the mouse.
    page.keyboard.press("Shift+Tab")
    cursor = panel.locator("rect.cursor").evaluate("r => [r.x, r.y, r.width].map(v => v.baseVal.value)")
    panel.locator(".map").hover(position={"x": cursor[0] + cursor[2] / 2, "y": cursor[1] + cursor[2] / 2})
    assert panel.locator(".readout").inner_text() == readout
    panel.locator(".map").focus()
    page.keyboard.press("Enter")
    assert page.locator("#panel-query-key").is_visible()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Encoder", "encoder_self"), ("Decoder", "decoder_self"), ("Encoder–decoder", "encoder_decoder")],
)
def test_a_weight_computed_from_query_and_key_is_the_captured_one(open_page: Opener, name: str, kind: Kind) -> None:
    attention = made_attention(bias=True)
    panel = open_view(open_page(attention), "query-key")
    choose(panel, "Attention", name)
    choose(panel, "Layer", "2")
    choose(panel, "Head", "3")
    panel.get_by_role("radiogroup", name="Query").get_by_role("radio").nth(4).click()
    panel.get_by_role("radiogroup", name="Key").get_by_role("radio").nth(3).click()
    arrays = dict(attention.kinds())[kind]
    expected = arrays.weights[1, 2, 4, 3]
    shown = shares(panel.locator(".both strong").all_inner_texts())
    assert shown == pytest.approx([expected, expected], abs=3 * ROUNDING)
    # The intermediate values: the sum of the products, then scaled, then with the bias.
    assert arrays.details is not None
    query, key = arrays.details.query[1, 2, 4], arrays.details.key[1, 2, 3]
    steps = [query @ key, query @ key / np.sqrt(8)]
    if arrays.details.bias is not None:
        steps.append(steps[1] + arrays.details.bias[1, 2, 4, 3])
    formula = panel.locator(".formula").inner_text().replace("−", "-")
    actual = [float(number) for number in re.findall(r"= (-?[\d.]+)", formula)]
    assert actual == pytest.approx(steps, abs=0.02)
    # The softmax over all keys that the query may attend to.
    table = shares(panel.locator(".softmax td.bar").all_inner_texts())
    visible = arrays.weights[1, 2, 4, : 5 if kind == "decoder_self" else None]
    assert table == pytest.approx(visible, abs=3 * ROUNDING)


def test_a_masked_key_is_explained(open_page: Opener) -> None:
    panel = open_view(open_page(made_attention()), "query-key")
    choose(panel, "Attention", "Decoder")
    panel.get_by_role("radiogroup", name="Query").get_by_role("radio").nth(1).click()
    panel.get_by_role("radiogroup", name="Key").get_by_role("radio").nth(5).click()
    assert "mask" in panel.locator(".both").inner_text()
    assert panel.locator(".softmax tbody tr").count() == 2


def test_products_are_read_by_keyboard(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "query-key")
    panel.get_by_role("radiogroup", name="Query").get_by_role("radio").nth(0).click()
    panel.get_by_role("radiogroup", name="Key").get_by_role("radio").nth(0).click()
    page.keyboard.press("Tab")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert attention.encoder_self is not None
    assert attention.encoder_self.details is not None
    a = attention.encoder_self.details.query[1, 0, 0, 3]
    b = attention.encoder_self.details.key[1, 0, 0, 3]
    numbers = re.findall(r"-?\d+\.\d+", panel.locator(".step .readout").inner_text().replace("−", "-"))
    assert [float(number) for number in numbers] == pytest.approx([a, b, a * b], abs=0.005)


def test_the_graph_draws_weights_above_the_threshold(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "graph")
    canvas = panel.locator(".stage canvas").first
    ink = [inked(canvas)]
    slider = panel.get_by_role("slider")
    for threshold in ("50", "90"):
        slider.fill(threshold)
        ink.append(inked(canvas))
    assert ink[0] > ink[1] > ink[2]
    # The numbers are available by keyboard, too.
    slider.focus()
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    expected = weights_of(attention)[1].mean(0)[1]
    means = shares(panel.locator(".weights").first.locator("td.mean").all_inner_texts())
    assert means == pytest.approx(sorted(expected, reverse=True), abs=ROUNDING)


def test_the_graph_shows_the_roles_of_heads(open_page: Opener) -> None:
    attention = made_attention()
    panel = open_view(open_page(attention), "graph")
    names = {"previous": "previous token", "next": "next token", "same": "same token", "separator": "punctuation, </s>"}
    roles = [each.role for each in measure(weights_of(attention), "encoder_self", attention.source)]
    assert panel.locator(".role-name").all_inner_texts() == [names.get(role, role) for role, _ in roles]
    values = [float(re.sub("[^0-9.]", "", text)) for text in panel.locator(".role-value").all_inner_texts()]
    expected = [100 * value if role in names else value for role, value in roles]
    assert values == pytest.approx(expected, abs=0.51)
    panel.locator(".role").nth(2).click()
    assert panel.get_by_role("button", name="Head", pressed=True).all_inner_texts() == ["3"]


def test_weights_between_words_in_both_directions(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "translation")
    words = attention.words()
    source, output = (panel.locator(f"button[data-side='{side}'] .word") for side in ("source", "output"))
    assert tuple(source.all_inner_texts()) == words.source
    assert tuple(output.all_inner_texts()) == words.predicted
    merged = weights_of(words, "encoder_decoder")
    expected = merged.mean((0, 1))
    output.nth(1).hover()
    amounts = panel.locator("button[data-side='source'] .amount")
    assert shares(amounts.all_inner_texts()) == pytest.approx(expected[1], abs=ROUNDING)
    assert panel.locator(".gloss").all_inner_texts()[: len(words.predicted)] != []
    source.nth(3).hover()
    amounts = panel.locator("button[data-side='output'] .amount")
    assert shares(amounts.all_inner_texts()) == pytest.approx(expected[:, 3], abs=ROUNDING)
    choose(panel, "Layer", "2")
    choose(panel, "Head", "4")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    amounts = panel.locator("button[data-side='output'] .amount")
    assert shares(amounts.all_inner_texts()) == pytest.approx(merged[1, 3, :, 1], abs=ROUNDING)
    best = [words.source[key] for key in merged[1, 3].argmax(-1)]
    assert panel.locator("button[data-side='output'] .gloss").all_inner_texts() == best
    assert inked(panel.locator(".interlinear canvas")) > 0


def test_candidates_are_shown_with_their_probabilities(open_page: Opener) -> None:
    panel = open_view(open_page(made_attention()), "translation")
    step = panel.locator(".step-list > li").nth(1)
    assert [text.lstrip("·") for text in step.locator("ul .word").all_inner_texts()] == ["Lam", "the"]
    assert step.locator("ul .amount").all_inner_texts() == ["62.5%", "25.0%"]
    # "Lampe" was written in two steps.
    panel.locator("button[data-side='output']").nth(1).hover()
    active = panel.locator(".step-list > li.active .output-token").all_inner_texts()
    assert [text.lstrip("·") for text in active] == ["Lam", "pe"]


def test_the_effect_of_switching_a_head_off(open_page: Opener) -> None:
    attention = made_attention()
    page = open_page(attention)
    panel = open_view(page, "what-if")
    shown = [float(text.replace("−", "-")) for text in panel.locator("td button").all_inner_texts()]
    assert attention.log_probability is not None
    changes = [each.log_probability - attention.log_probability for each in attention.without]
    assert shown == pytest.approx(changes, abs=0.0051)
    panel.locator("td button").nth(0).focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert panel.locator(".result h3").inner_text() == "Without encoder self-attention, layer 1, head 2"
    assert panel.locator("del").all_inner_texts() == ["war"]
    assert panel.locator("ins").all_inner_texts() == ["ist"]
    assert f"({shown[1]:+.2f})".replace("-", "−") in panel.locator(".change").inner_text()
    panel.locator("td button").nth(0).click()
    assert panel.locator("del, ins").count() == 0


def test_text_without_spaces_is_compared_character_by_character(open_page: Opener) -> None:
    attention = made_attention(translation="厨war灯亮。")
    panel = open_view(open_page(attention), "what-if")
    panel.locator("td button").nth(1).click()
    assert panel.locator("dd").all_inner_texts() == ["厨war灯亮。", "厨ist灯亮。"]
    assert panel.locator("del, ins").all_inner_texts() == ["war", "ist"]


def test_tabs_are_selected_with_arrow_keys(open_page: Opener) -> None:
    page = open_page(made_attention())
    page.locator("#tab-heads").focus()
    for view in VIEWS[1:]:
        page.keyboard.press("ArrowRight")
        assert page.evaluate("document.activeElement.id") == f"tab-{view}"
        assert page.locator(f"#panel-{view}").is_visible()
    assert page.locator("[role=tab][aria-selected=true]").count() == 1
    # All tabs are one stop of the Tab key, and so is each group of tokens.
    assert page.locator("[role=tab][tabindex='0']").count() == 1
    page.keyboard.press("Home")
    assert page.locator("#panel-heads .query button[tabindex='0']").count() == 1
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


HOSTILE = "</script><img src=x onerror='window.broken=1;alert(1)'><b>&amp;\u2028{{style}}"


def test_hostile_text_stays_text(open_page: Opener) -> None:
    attention = made_attention(
        [f"▁{HOSTILE}", "]]>", "</s>"],
        [f"▁{HOSTILE}", "<!--", "<script>window.broken=1</script>"],
        text=HOSTILE,
        translation=f"{HOSTILE} war",
        others=[HOSTILE],
    )
    page = open_page(attention)
    for view in VIEWS:
        panel = open_view(page, view)
        for token in panel.locator("button.token, thead, td button").all()[:6]:
            token.hover()
        assert page.locator("img, b").count() == 0
        assert page.locator("script").count() == 3
    assert page.locator("#text").evaluate("e => e.textContent") == HOSTILE
    assert page.title().startswith("Attention: </script><img src=x onerror='window.broken=1;alert(1)'>")
    token = page.locator("#panel-heads .query button .word").first
    assert token.evaluate("e => e.textContent") == f"·{HOSTILE}"
    assert page.locator("#panel-what-if dd").first.evaluate("e => e.textContent").startswith("</script><img")
    assert page.evaluate("window.broken") is None


def test_the_security_policy_blocks_requests(browser: Browser, tmp_path: Path) -> None:
    # `open_page` is not used, because the browser logs the blocked requests.
    made_attention().save(tmp_path / "page.html")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    directives = page.evaluate(
        """async () => {
            const violations = [];
            document.addEventListener("securitypolicyviolation", (event) => violations.push(event.effectiveDirective));
            const failed = await fetch("http://127.0.0.1:9/").then(() => false, () => true);
            const frame = document.createElement("iframe");
            frame.src = "http://127.0.0.1:9/";
            document.body.append(frame);
            // The violation by the frame is reported with a delay.
            for (let waited = 0; violations.length < 2 && waited < 100; waited++)
                await new Promise((resolve) => setTimeout(resolve, 50));
            return [failed, ...violations];
        }"""
    )
    page.close()
    assert directives == [True, "connect-src", "frame-src"]


def test_a_map_is_displayed_in_a_notebook(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content(made_attention()._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator("#tab-graph").click()
    assert frame.locator("#panel-graph .role").count() == 8
    page.close()


def test_right_to_left_and_chinese(open_page: Opener) -> None:
    arabic = ("▁كان", "▁المصباح", "▁ساطعا")
    attention = made_attention(
        ["▁", "厨", "房", "里", "的", "灯", "</s>"], arabic, text="厨房里的灯", translation="كان المصباح ساطعا"
    )
    page = open_page(attention)
    assert page.locator("#translation").evaluate("e => getComputedStyle(e).direction") == "rtl"
    panel = open_view(page, "translation")
    source, output = (panel.locator(f"button[data-side='{side}']") for side in ("source", "output"))
    assert source.locator(".word").all_inner_texts() == ["厨", "房", "里", "的", "灯", "</s>"]

    def lefts(tokens: Locator) -> list[float]:
        boxes = [token.bounding_box() for token in tokens.all()]
        assert all(box and box["width"] > 8 and box["height"] > 8 for box in boxes)
        return [box["x"] for box in boxes if box]

    assert lefts(source) == sorted(lefts(source))
    assert lefts(output) == sorted(lefts(output), reverse=True)
    # In right-to-left text, the left arrow key moves to the next token.
    output.first.focus()
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.index") == "1"
    panel = open_view(page, "heads")
    choose(panel, "Attention", "Encoder–decoder")
    words = panel.locator(".query .word")
    assert [text.lstrip("·") for text in words.all_inner_texts()] == [token[1:] for token in arabic] + ["</s>"]
    assert [word.get_attribute("dir") for word in words.all()] == ["auto"] * 4


def test_light_and_dark(open_page: Opener) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    light = open_page(made_attention()).evaluate(background)
    page = open_page(made_attention(), "dark")
    dark = page.evaluate(background)
    canvas = page.locator("#panel-heads .lines canvas").first
    picture = canvas.evaluate("c => c.toDataURL()")
    assert light != dark
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate(background) == light
    # The pictures are redrawn in the other colours.
    assert canvas.evaluate("c => c.toDataURL()") != picture
    page.get_by_role("button", name="Use dark colours").click()
    assert page.evaluate(background) == dark


def test_a_narrow_window_does_not_scroll_horizontally(open_page: Opener) -> None:
    page = open_page(made_attention())
    page.set_viewport_size({"width": 430, "height": 800})
    for view in VIEWS:
        open_view(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 430


def test_translations_with_and_without_a_head_use_the_same_search(open_page: Opener) -> None:
    """The translation without a head is from greedy search, so it is compared with greedy search with all heads."""
    attention = replace(made_attention(), with_all="Die Leuchte war hell.")
    panel = open_view(open_page(attention), "what-if")
    panel.locator("td button").nth(1).click()
    assert panel.locator("dd").all_inner_texts() == ["Die Leuchte war hell.", "Die Lampe ist hell."]
    assert panel.locator("del").all_inner_texts() == ["Leuchte", "war"]
    assert "found by greedy search" in panel.locator(".change").inner_text()


def test_the_page_of_a_language_model(open_page: Opener) -> None:
    """One text, one kind of attention, and the predicted tokens; nothing about sources and translations."""
    attention = random_analyzer().attention("O Romeo", candidates=3, without_heads=True)
    page = open_page(attention)
    names = page.locator("#tabs button").all_inner_texts()
    assert names == ["Heads", "Overview", "Query and key", "Graph", "Prediction", "What if"]
    assert page.locator(".sentence dt").all_inner_texts() == ["Text", "Predicted"]
    assert "perplexity" in page.locator("#score").inner_text()
    panel = open_view(page, "heads")
    assert panel.get_by_role("radiogroup").count() == 1
    panel.locator(".query button[data-index='3']").hover()
    expected = weights_of(attention, "decoder_self")[0, :, 3, :4].mean(0)
    shown = panel.locator(".key .amount").all_inner_texts()
    assert shares(shown[:4]) == pytest.approx(expected, abs=ROUNDING)
    assert set(shown[4:]) == {""}
    steps = open_view(page, "prediction").locator(".step-list > li")
    assert steps.count() == len("O Romeo") + 1
    assert steps.last.locator(".output-token").inner_text() == "continuation"
    probabilities = shares(steps.nth(2).locator(".amount").all_inner_texts())
    assert probabilities == pytest.approx([each.probability for each in attention.candidates[2]], abs=ROUNDING)
    panel = open_view(page, "what-if")
    assert panel.locator("td button").count() == len(attention.without)
    for view in ("heads", "overview", "query-key", "graph", "prediction", "what-if"):
        panel = open_view(page, view)
        assert panel.locator(".note").count() == 0
        assert not re.search("source|translation|decoder|output", panel.inner_text().lower())


def test_the_page_of_an_encoder_without_predictions(open_page: Opener) -> None:
    made = made_attention(kinds=["encoder_self"], extras=False)
    page = open_page(replace(made, target=(), predicted=(), translation="", log_probability=None))
    assert page.locator("#tabs button").all_inner_texts() == ["Heads", "Overview", "Query and key", "Graph"]
    assert page.locator(".sentence dt:visible").all_inner_texts() == ["Text"]
