"""LibreTranslate's interface with the clients that others wrote for it, unmodified, over HTTP."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError

import pytest
from deep_translator import LibreTranslator
from deep_translator.exceptions import AuthorizationException, ServerException
from libretranslate_aio import AsyncLibreTranslate, LibreTranslate
from libretranslate_aio.exceptions import BadRequestError, ForbiddenError, RateLimitError, ServerError
from libretranslate_aio.models import DetectedLanguage, Detection, Language
from libretranslatepy import LibreTranslateAPI

from tests.support.serving_libre import BROKEN, KEY, FakeAccess, make_app, running

NPM_CLIENT = "libretranslate@1.0.1"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="module")
def url(directory: Path) -> Iterator[str]:
    """The address of a server that needs no key."""
    with running(make_app(directory / "data", suggestions=directory / "suggestions")) as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def keyed_url(directory: Path) -> Iterator[str]:
    """The address of a server that needs a key."""
    with running(make_app(directory / "keyed", access=FakeAccess(keys_required=True))) as port:
        yield f"http://127.0.0.1:{port}"


def test_libretranslate_aio(url: str, directory: Path, tmp_path: Path) -> None:
    with LibreTranslate(url) as client:
        assert client.translate("hello & good bye", "en", "de").translated_text == "HELLO & GOOD BYE"
        one = client.translate("hello", "auto", "de", format="html", alternatives=2)
        assert one.alternatives == ["HELLO!", "HELLO!!"]
        assert one.detected_language == DetectedLanguage(confidence=87.0, language="en")
        several = client.translate(["a", "b"], "auto", "de", alternatives=1)
        assert several.translated_text == ["A", "B"]
        assert several.detected_language == [DetectedLanguage(confidence=87.0, language="en")] * 2
        assert several.alternatives == [["A!"], ["B!"]]
        assert client.detect("hello") == [Detection(confidence=87.0, language="en")]
        assert client.languages()[0] == Language(code="en", name="English", targets=["de", "es"])
        assert client.suggest("hello", "hallo", "en", "de")
        assert "hallo" in (directory / "suggestions").read_text(encoding="utf-8")
        settings = client.frontend_settings()
        assert (settings.char_limit, settings.suggestions, settings.supported_files_format) == (50_000, True, [".txt"])
        assert client.health()
        (tmp_path / "grüße.txt").write_text("hello\nyou\n", encoding="utf-8")
        file = client.translate_file(tmp_path / "grüße.txt", "en", "de")
        with urllib.request.urlopen(file.translated_file_url) as answer:
            assert answer.read() == b"HELLO\nYOU\n"
        with pytest.raises(BadRequestError, match="'en' to 'xx' is not supported"):
            client.translate("hello", "en", "xx")
        with pytest.raises(BadRequestError, match="1500 characters: send at most 1000"):
            client.translate("a" * 1500, "en", "de")
        with pytest.raises(ServerError, match="internal error of the server"):
            client.translate(BROKEN, "en", "de")


def test_libretranslate_aio_with_keys(keyed_url: str) -> None:
    with LibreTranslate(keyed_url, api_key=KEY) as client:
        assert client.translate("hello", "en", "de").translated_text == "HELLO"
        with pytest.raises(ForbiddenError, match="this server accepts no suggestions"):
            client.suggest("hello", "hallo", "en", "de")
    with LibreTranslate(keyed_url) as client:
        assert client.frontend_settings().key_required
        with pytest.raises(ForbiddenError, match="a valid API key is needed"):
            client.translate("hello", "en", "de")
    with LibreTranslate(keyed_url, api_key="often") as client, pytest.raises(RateLimitError, match="Slowdown: "):
        client.detect("hello")


def test_libretranslate_aio_many_at_once(url: str) -> None:
    async def translate() -> list[object]:
        async with AsyncLibreTranslate(url) as client:
            results = await asyncio.gather(*(client.translate(f"text {n}", "en", "de") for n in range(50)))
            return [result.translated_text for result in results]

    assert asyncio.run(translate()) == [f"TEXT {n}" for n in range(50)]


def test_libretranslatepy(url: str, keyed_url: str) -> None:
    client = LibreTranslateAPI(url)
    assert client.translate("50 % ü", "en", "de") == "50 % Ü"
    assert client.detect("hello") == [{"confidence": 87.0, "language": "en"}]
    # It sends GET with a body.
    assert client.languages()[0] == {"code": "en", "name": "English", "targets": ["de", "es"]}
    keyed = LibreTranslateAPI(keyed_url, KEY)
    assert keyed.translate("hello", "en", "de") == "HELLO"
    assert len(keyed.languages()) == 3
    with pytest.raises(HTTPError) as raised:
        LibreTranslateAPI(keyed_url).translate("hello", "en", "de")
    with raised.value as answer:
        assert (answer.code, json.load(answer)) == (403, {"error": "a valid API key is needed"})


def test_deep_translator(url: str, keyed_url: str, tmp_path: Path) -> None:
    # It appends "translate" to the address, and cannot be used without a key.
    client = LibreTranslator("English", "German", api_key=KEY, custom_url=url + "/")
    assert client.translate("hello & ü") == "HELLO & Ü"
    assert client.translate_batch(["a", "b"]) == ["A", "B"]
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    assert client.translate_file(str(tmp_path / "a.txt")) == "HELLO"
    with pytest.raises(ServerException):
        client.translate(BROKEN)
    keyed = LibreTranslator("en", "de", api_key=KEY, custom_url=keyed_url + "/")
    assert keyed.translate("hello") == "HELLO"
    with pytest.raises(AuthorizationException):
        LibreTranslator("en", "de", api_key="other", custom_url=keyed_url + "/").translate("hello")


@pytest.fixture(scope="session")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the client of npm."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", NPM_CLIENT, "--prefix", str(folder), "--cache", str(folder / "cache")]
    command += ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel", "error"]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_npm_libretranslate(npm_folder: Path, url: str, keyed_url: str) -> None:
    def translate(server: str, **options: str) -> object:
        arguments = json.dumps({"apiurl": server, **options})
        script = 'const {translate} = require("libretranslate");'
        script += "translate(JSON.parse(process.argv[1])).then(t => console.log(JSON.stringify({t})))"
        done = subprocess.run(
            ["node", "-e", script, arguments], cwd=npm_folder, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout).get("t")

    # Its source is "auto" if there is none. It asks for the languages first and refuses a target that is not one.
    assert translate(url, query="hello ü", target="de") == "HELLO Ü"
    assert translate(url, query="<b>hello</b>", source="en", target="es", format="html") == "<B>HELLO</B>"
    # An error of the server is no error of this client.
    assert translate(url, query="hello", source="en", target="en") is None
    # It sends its key as "apiKey", which LibreTranslate does not read either.
    assert translate(keyed_url, query="hello", target="de", apiKey=KEY) is None
