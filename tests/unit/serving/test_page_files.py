"""The files of the page: types, caching and security headers, and that nothing else is served."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.support.installed import STATIC
from tests.support.serving_page import WordLines, make_app

FILES = sorted(path.name for path in STATIC["serving/page"].iterdir())


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    return TestClient(make_app(WordLines(), tmp_path))


def folder(client: TestClient) -> str:
    match = re.search(r'"(page/[0-9a-f]{16})/page\.js"', client.get("/").text)
    assert match
    return f"/{match[1]}"


def test_pages_are_revalidated_and_their_files_are_kept(client: TestClient) -> None:
    page = client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["cache-control"] == "no-cache"
    assert client.get("/", headers={"If-None-Match": page.headers["etag"]}).status_code == 304
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200
    script = client.get(f"{folder(client)}/page.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "immutable" in script.headers["cache-control"]


def test_every_answer_has_the_strict_content_security_policy(client: TestClient) -> None:
    for path in ["/docs", f"{folder(client)}/style.css", "/page/0/page.js"]:
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self';")
        assert headers["x-content-type-options"] == "nosniff"


def test_the_page_permits_the_scripts_of_the_attention_page_by_their_hashes(client: TestClient) -> None:
    policy = client.get("/").headers["content-security-policy"]
    assert re.match(
        r"default-src 'none'; script-src 'self'( 'sha256-[\w+/]{43}='){2}; style-src 'self' 'sha256-", policy
    )
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", ["index.html", "nothing.js", "..%2F__init__.py", "%2e%2e", "page.js%00", "", "a/b"])
def test_only_the_files_of_the_page_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"{folder(client)}/{name}").status_code == 404


def test_every_file_is_served_or_is_a_page(client: TestClient) -> None:
    assert len(FILES) > 10
    for name in FILES:
        assert client.get(f"{folder(client)}/{name}").status_code == (404 if name.endswith(".html") else 200)


@pytest.mark.parametrize("name", FILES)
def test_no_file_refers_to_another_server_or_runs_text(name: str) -> None:
    text = (STATIC["serving/page"] / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?://|@import|innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|style=", text)
