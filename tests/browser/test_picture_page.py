"""The page of attention over pictures in a real browser: pointer, keyboard, touch, hostile text, no requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from dragoman.images.picture_classifier import PictureClassifier
from dragoman.images.picture_generator import PictureGenerator
from dragoman.images.picture_layers import attention_of_gan, attention_of_vision
from dragoman.picture_page.data import LayerAttention, PictureAttention
from dragoman.picture_page.page import save_picture_page
from tests.support.made_pictures import made_picture_attention, made_pictures
from tests.support.picture_models import GAN, VISION, save_picture_model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Dialog, Page

PICTURES = made_picture_attention()
# The page shows percentages with one decimal place, computed from bytes relative to the largest weight.
ROUNDING = 0.0021
HOSTILE = "</script><img src=x onerror='window.broken=1;alert(1)'><script>window.broken=1</script>"

Shower = Callable[..., "Page"]


@pytest.fixture
def show(browser: Browser, tmp_path: Path) -> Iterator[Shower]:
    """Return a function that opens a page from disk; it must cause no errors, messages, dialogs or requests."""
    messages: list[str] = []
    requests: set[str] = set()
    pages: list[Page] = []
    file = tmp_path / "page.html"

    def on_dialog(dialog: Dialog) -> None:
        messages.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def shower(
        pictures: Sequence[PictureAttention] = PICTURES,
        *,
        title: str = "a title",
        color_scheme: Literal["light", "dark"] = "light",
        has_touch: bool = False,
        width: int = 1280,
    ) -> Page:
        save_picture_page(pictures, file, title=title)
        page = browser.new_page(
            viewport={"width": width, "height": 800}, color_scheme=color_scheme, has_touch=has_touch
        )
        page.set_default_timeout(5000)
        pages.append(page)
        page.on("pageerror", lambda error: messages.append(f"error: {error}"))
        page.on("console", lambda message: messages.append(f"{message.type}: {message.text}"))
        page.on("dialog", on_dialog)
        page.on("request", lambda request: requests.add(request.url[:40]))
        page.goto(file.as_uri())
        page.wait_for_selector("#strongest li")
        return page

    yield shower
    for page in pages:
        page.close()
    assert messages == []
    # Pictures are data URLs inside the page.
    assert {url for url in requests if not url.startswith("data:")} == {file.as_uri()[:40]}


def pixels(page: Page) -> str:
    """Return the content of the map over the picture."""
    return str(page.locator("#overlay").evaluate("canvas => canvas.toDataURL()"))


def colours(page: Page, rows: int, columns: int) -> list[list[int]]:
    """Return the colours of the map at the centres of the positions of a grid."""
    found: list[list[int]] = page.locator("#overlay").evaluate(
        """(canvas, [rows, columns]) => {
            const copy = new OffscreenCanvas(canvas.width, canvas.height);
            const context = copy.getContext("2d", { willReadFrequently: true });
            context.drawImage(canvas, 0, 0);
            const colours = [];
            for (let row = 0; row < rows; row++) for (let column = 0; column < columns; column++) {
                const x = (column + 0.5) * canvas.width / columns, y = (row + 0.5) * canvas.height / rows;
                colours.push([...context.getImageData(x, y, 1, 1).data].slice(0, 3));
            }
            return colours;
        }""",
        [rows, columns],
    )
    return found


def point_at(page: Page, layer: LayerAttention, row: int, column: int) -> None:
    box = page.locator("#map").bounding_box()
    assert box is not None
    rows, columns = layer.grid
    page.mouse.move(box["x"] + box["width"] * (column + 0.5) / columns, box["y"] + box["height"] * (row + 0.5) / rows)


def written(page: Page) -> list[tuple[str, float]]:
    """Return the positions and weights that are listed."""
    items = page.locator("#strongest li").all()
    texts = [item.locator("span").all_inner_texts() for item in items]
    return [(name, float(share.removesuffix("%")) / 100) for name, share, _ in texts]


def check(page: Page, weights: Sequence[float], columns: int) -> None:
    """Check the listed positions and weights."""
    listed = written(page)
    expected = sorted(weights, reverse=True)[:3]
    assert [share for _, share in listed] == pytest.approx(expected, abs=ROUNDING)
    for name, share in listed:
        row, column = (int(part.split()[-1]) - 1 for part in name.split(","))
        assert weights[row * columns + column] == pytest.approx(share, abs=ROUNDING)


def choose(page: Page, label: str, option: str) -> None:
    page.get_by_role("radiogroup", name=label, exact=True).get_by_role("radio", name=option, exact=True).click()
    # The weights of a layer are unpacked when it is chosen.
    page.wait_for_selector("#map:not([aria-busy])")


def test_pointing_at_a_position_shows_where_it_attends(show: Shower) -> None:
    page = show()
    fine = PICTURES[0].layers[0]
    before = pixels(page)
    point_at(page, fine, 4, 3)
    assert page.locator("#readout").inner_text() == "Row 5, column 4 attends most to"
    check(page, fine.weights.mean(axis=0)[4 * 4 + 3].tolist(), 4)
    assert page.locator("#largest").inner_text() == page.locator("#strongest .share").first.inner_text()
    there = pixels(page)
    assert there != before
    point_at(page, fine, 0, 0)
    assert pixels(page) != there
    # The map of the position that was kept returns.
    page.mouse.move(2, 2)
    assert pixels(page) == before
    # A click keeps a position.
    point_at(page, fine, 4, 3)
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(2, 2)
    assert pixels(page) == there


def test_the_map_is_brightest_at_the_largest_weight(show: Shower) -> None:
    page = show()
    page.locator("#smooth").uncheck()
    fine = PICTURES[0].layers[0]
    choose(page, "Head", "Head 2")
    brightness = [sum(colour) for colour in colours(page, 6, 4)]
    # The first position is in the middle: row 2, column 1.
    weights = fine.weights[1, 2 * 4 + 1]
    assert brightness.index(max(brightness)) == weights.argmax()


def test_positions_are_selected_by_keyboard(show: Shower) -> None:
    page = show()
    fine = PICTURES[0].layers[0]
    page.locator("#map").focus()
    before = pixels(page)
    for key in ("PageDown", "End", "ArrowRight", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    assert page.locator("#map").get_attribute("aria-label") == "Position: row 5, column 3"
    weights = fine.weights.mean(axis=0)[4 * 4 + 2]
    check(page, weights.tolist(), 4)
    assert pixels(page) != before
    announcement = page.locator("#announcement").inner_text()
    best = int(weights.argmax())
    assert announcement.startswith(
        f"Row 5, column 3 attends most to row {best // 4 + 1}, column {best % 4 + 1}: {100 * weights[best]:.1f}%"
    )
    # From the map, the controls are reached in order: direction, layer, head.
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("radio", name="What attends to it").get_attribute("aria-checked") == "true"
    check(page, fine.weights.mean(axis=0)[:, 4 * 4 + 2].tolist(), 4)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    assert page.get_by_role("radio", name="Head 2").get_attribute("aria-checked") == "true"
    check(page, fine.weights[1, 4 * 4 + 2].tolist(), 4)


def test_layers_and_pictures_with_other_grids(show: Shower) -> None:
    page = show()
    coarse, only = PICTURES[0].layers[1], PICTURES[1].layers[0]
    choose(page, "Head", "Head 2")
    choose(page, "Layer", "coarse")
    point_at(page, coarse, 5, 3)
    check(page, coarse.weights[0, 23].tolist(), 2)
    # One head needs no choice.
    assert page.locator("#head").is_hidden()
    choose(page, "Position", "What attends to it")
    point_at(page, only, 2, 1)
    assert page.locator("#readout").inner_text() == "Row 3, column 2 is attended to most from"
    check(page, coarse.weights[0, :, 5].tolist(), 4)
    choose(page, "Position", "Where it attends")
    choose(page, "Picture", "second")
    page.wait_for_function("document.getElementById('label').textContent === 'second'")
    point_at(page, only, 0, 1)
    check(page, only.weights[0, 1].tolist(), 2)
    assert page.locator("#picture").get_attribute("alt") == "second"
    assert page.locator("#layer").is_hidden()


def test_the_class_token_is_a_query(show: Shower) -> None:
    page = show()
    fine = PICTURES[0].layers[0]
    assert fine.class_token is not None
    page.get_by_role("button", name="Class token").click()
    assert page.locator("#readout").inner_text() == "The class token attends most to"
    check(page, fine.class_token.mean(axis=0).tolist(), 4)
    page.locator("#map").focus()
    page.keyboard.press("Home")
    assert page.get_by_role("button", name="Class token").get_attribute("aria-pressed") == "false"
    choose(page, "Layer", "coarse")
    assert page.get_by_role("button", name="Class token").is_hidden()


def test_both_networks_of_a_gan_are_selected(show: Shower, tmp_path: Path) -> None:
    gan = PictureGenerator.load(save_picture_model(tmp_path / "gan", GAN), device="cpu")
    made = gan.attend(2, seed=1)
    read = gan.attend_to(made.pictures)
    pictures = attention_of_gan({"generator": made, "discriminator": read}, ["first", "second"])
    page = show(pictures)
    choose(page, "Picture", "second")
    for layer, attending in (("discriminator (γ = -0.250)", read), ("generator (γ = 0.500)", made)):
        choose(page, "Layer", layer)
        for row, column in ((0, 7), (5, 2)):
            point_at(page, pictures[1].layers[0], row, column)
            check(page, attending.weights[1, row, column].flatten().tolist(), 8)


def test_every_layer_and_head_of_a_vision_transformer_is_selected(show: Shower, tmp_path: Path) -> None:
    classifier = PictureClassifier.load(save_picture_model(tmp_path / "vision", VISION), device="cpu")
    read = made_pictures(1, 16, 16, 1)
    # [N, L, H, T, T] -> [L, H, T, T]
    weights = classifier.attend(read)[0]
    pictures = attention_of_vision(read, weights[None], ["top (90%)"])
    page = show(pictures)
    for layer in (1, 0):
        choose(page, "Layer", str(layer + 1))
        for head, name in ((1, "Head 2"), (0, "Head 1"), (slice(0, 2), "Mean of all heads")):
            choose(page, "Head", name)
            # [H, T, T] -> [T, T]
            chosen = weights[layer, head].reshape(-1, 17, 17).mean(axis=0)
            point_at(page, pictures[0].layers[layer], 3, 1)
            check(page, chosen[1 + 3 * 4 + 1, 1:].tolist(), 4)
            page.mouse.move(2, 2)
            page.get_by_role("button", name="Class token").click()
            check(page, chosen[0, 1:].tolist(), 4)
            page.get_by_role("button", name="Class token").click()


def test_the_picture_is_visible_under_similar_weights(show: Shower) -> None:
    """Weights that hardly differ: the map has no opacity at the smallest one."""
    weights = np.full((1, 4, 4), 0.25) + np.array([-0.01, 0, 0, 0.01])
    layer = LayerAttention(name="a", weights=weights, grid=(2, 2), key_grid=(2, 2))
    page = show([PictureAttention(picture=made_pictures(1, 16, 16, 1)[0], label="", layers=(layer,))])
    page.locator("#smooth").uncheck()
    page.locator("#map").focus()
    page.keyboard.press("End")
    smallest, *_, largest = colours(page, 2, 2)
    # Darkened only, and coloured.
    assert smallest == [0, 0, 0]
    assert largest[0] > 150


def test_a_tap_selects_a_position_on_a_narrow_screen(show: Shower) -> None:
    page = show(has_touch=True, width=380)
    box = page.locator("#map").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 380
    page.touchscreen.tap(box["x"] + 2, box["y"] + 2)
    assert page.locator("#readout").inner_text() == "Row 1, column 1 attends most to"
    assert page.evaluate("document.documentElement.scrollWidth") <= 380


def test_heat_and_colour_scheme(show: Shower) -> None:
    page = show(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.get_by_role("button", name="Use light colours").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    before = pixels(page)
    page.locator("#strength").fill("30")
    assert pixels(page) != before


def test_hostile_text_stays_text(show: Shower) -> None:
    page = show(made_picture_attention(label=HOSTILE, layer=HOSTILE), title=HOSTILE)
    assert page.locator("#label").evaluate("e => e.textContent") == HOSTILE
    assert page.locator("h1").evaluate("e => e.textContent") == HOSTILE
    assert page.locator("#layer button").first.evaluate("e => e.textContent") == HOSTILE
    assert page.locator("#thumbnails button").first.get_attribute("aria-label") == HOSTILE
    assert page.locator("script").count() == 2
    assert page.evaluate("window.broken") is None


def test_the_security_policy_blocks_requests(browser: Browser, tmp_path: Path) -> None:
    # `show` is not used, because the browser logs the blocked request.
    save_picture_page(PICTURES, tmp_path / "page.html", title="")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    blocked = page.evaluate('fetch("http://127.0.0.1:9/").then(() => "", (error) => error.name)')
    directive = page.evaluate(
        """() => new Promise((resolve) => {
            document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
            const image = document.createElement("img");
            image.src = "http://127.0.0.1:9/";
            document.body.append(image);
        })"""
    )
    page.close()
    assert (blocked, directive) == ("TypeError", "img-src")
