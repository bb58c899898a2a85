"""The documentation site: it builds without warnings, loads nothing from a network, and can be searched from disk."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from dragoman.cli import VERBS
from dragoman.models.registry import ARCHITECTURES
from dragoman.training.config import TrainingConfig
from tests.support.paths import REPOSITORY

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NETWORK = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as `make docs` does: broken links and anchors and malformed docstrings are failures."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


class Assets(HTMLParser):
    """Collects what a page loads: scripts, styles, pictures, frames."""

    def __init__(self) -> None:
        super().__init__()
        self.urls: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # What a link leads to is not loaded; nor is the address that a page has.
        values = dict(attrs)
        if tag == "a" or (tag == "link" and values.get("rel") in ("canonical", "prev", "next")):
            return
        self.urls += [str(values[name]) for name in ("src", "href", "srcset", "data", "poster") if values.get(name)]


def test_nothing_is_loaded_from_a_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    for path in pages:
        assets = Assets()
        assets.feed(path.read_text(encoding="utf-8"))
        assert assets.urls, path
        assert [url for url in assets.urls if NETWORK.match(url)] == [], path
    for path in site.rglob("*.css"):
        urls = re.findall(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)", path.read_text(encoding="utf-8"))
        assert [url for url in urls if NETWORK.match(url)] == [], path


def test_formulas_are_mathml(site: Path) -> None:
    page = (site / "formulas.html").read_text(encoding="utf-8")
    assert page.count("<math") > 20
    assert page.count('class="formula"') > 1
    assert "<mi>softmax</mi>" in page
    for path in site.rglob("*.html"):
        text = re.sub(r"<(code|script|pre)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert "$$" not in text, path


def test_the_reference_has_every_verb_and_setting(site: Path) -> None:
    verbs = (site / "reference/verbs.html").read_text(encoding="utf-8")
    for verb in VERBS:
        assert f'<h2 id="{verb}">' in verbs
    for option in ("--beam", "--minutes", "--pair", "--against", "--engine"):
        assert f"<td><code>{option}" in verbs
    settings = (site / "reference/settings.html").read_text(encoding="utf-8")
    for field in fields(TrainingConfig):
        # Name, type, default, and a description that is not empty.
        row = rf'<code id="training-{field.name}">.*?</td>\s*<td>.*?</td>\s*<td>\w'
        assert re.search(row, settings, re.DOTALL), field.name
    for name, architecture in ARCHITECTURES.items():
        # A classifier and a tagger have the width of the encoder that they are made from.
        names = {field.name for field in fields(architecture.config)}
        setting = next(each for each in ("d_model", "dropout", "width") if each in names)
        assert f'id="model-{name}-{setting}"' in settings


def test_the_python_reference_has_what_users_call(site: Path) -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (site / "reference/python").glob("*.html"))
    for name in (
        "translation.translator.Translator.load",
        "translation.translator.Translator.translate",
        "translation.translator.Translator.attention",
        "run.train.train",
        "translation.evaluation.evaluate",
        "attention_page.map.AttentionMap.save",
        "errors.ModelError",
    ):
        assert f'id="dragoman.{name}"' in text


def test_the_site_can_be_searched_from_disk(site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    try:
        requests: list[str] = []
        errors: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((site / "index.html").as_uri())
        query, result = page.locator("input[name=query]"), page.locator(".md-search-result__item a").first
        # The page ignores what is typed before its index is loaded.
        for _ in range(20):
            query.click()
            query.fill("")
            query.press_sequentially("label smoothing", delay=20)
            with suppress(PlaywrightTimeout):
                result.wait_for(timeout=4_000)
                break
        assert result.count() == 1
        assert result.get_attribute("href")
        assert errors == []
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    finally:
        page.close()
