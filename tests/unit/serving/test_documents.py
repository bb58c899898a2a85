"""Documents that are translated in the background."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.serving.documents.documents import Document, DocumentLimits, Documents
from dragoman.serving.documents.file_store import FileStore
from dragoman.serving.documents.formats import format_of
from dragoman.serving.request_error import RequestError
from dragoman.serving.texts.service import TextOptions, TranslationService
from tests.support.serving_deepl import UpperCase

OPTIONS = TextOptions(source="en", target="de")
TEXT = format_of("a.TXT")


def documents(folder: Path, lines: UpperCase | None = None, limits: DocumentLimits | None = None) -> Documents:
    return Documents(TranslationService(lines or UpperCase()), FileStore(folder), limits)


def add(store: Documents, content: bytes = b"one\ntwo\n") -> Document:
    texts = TEXT.texts(content)
    return store.add(owner="me", name="a.txt", content=content, document_format=TEXT, texts=texts, options=OPTIONS)


async def finish(document: Document) -> None:
    async with asyncio.timeout(10):
        while not document.finished:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "content",
    [b"", b"one", b"\n\n", b"one\r\n\r\n two \n", b"\xef\xbb\xbfone\n", b"line of words\n" * 5000, b"word " * 1000],
    ids=range(7),
)
def test_every_line_is_translated(content: bytes, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = documents(tmp_path)
        document = add(store, content)
        await finish(document)
        assert document.error == ""
        assert document.content == b""
        assert await store.take(document) == content.upper()
        assert list(tmp_path.iterdir()) == []

    assert all(len(text) < 10_000 for text in TEXT.texts(content))
    asyncio.run(scenario())


def test_formats() -> None:
    for name in ("a.docx", "a", ".txt", ""):
        with pytest.raises(RequestError, match=r"cannot be translated; these can: \.txt") as error:
            format_of(name)
        assert error.value.status == 400
    with pytest.raises(RequestError, match=r"not UTF-8 \(at byte 3\)"):
        TEXT.texts(b"abc\xff")


def test_a_result_is_taken_once_and_by_its_owner(tmp_path: Path) -> None:
    async def scenario() -> None:
        lines = UpperCase()
        lines.gate.clear()
        store = documents(tmp_path, lines)
        document = add(store)
        assert document.state == "queued"
        with pytest.raises(RequestError) as error:
            await store.take(document)
        assert error.value.status == 503
        assert error.value.retry_after
        lines.gate.set()
        await finish(document)
        for owner, identifier, key in [
            ("you", document.identifier, document.key),
            ("me", document.identifier, "key"),
            ("me", document.identifier, "schlüssel"),
            ("me", "identifier", document.key),
        ]:
            with pytest.raises(RequestError) as error:
                store.get(owner, identifier, key)
            assert error.value.status == 404
        await store.take(store.get("me", document.identifier, document.key))
        with pytest.raises(RequestError) as error:
            store.get("me", document.identifier, document.key)
        assert error.value.status == 404
        with pytest.raises(RequestError) as error:
            await store.take(document)
        assert error.value.status == 404

    asyncio.run(scenario())


def test_limits(tmp_path: Path) -> None:
    async def scenario() -> None:
        for limits in (DocumentLimits(documents=1), DocumentLimits(uploaded_bytes=10)):
            store = documents(tmp_path, limits=limits)
            document = add(store)
            with pytest.raises(RequestError) as error:
                add(store)
            assert error.value.status == 429
            await finish(document)
            add(store)
            await store.close()
        short = documents(tmp_path, limits=DocumentLimits(seconds=0.05))
        document = add(short)
        await finish(document)
        await asyncio.sleep(0.06)
        with pytest.raises(RequestError) as error:
            short.get("me", document.identifier, document.key)
        assert error.value.status == 404
        lines = UpperCase()
        lines.gate.clear()
        stuck = add(documents(tmp_path, lines, DocumentLimits(seconds=0.01)))
        await finish(stuck)
        assert stuck.error == "its translation took too long"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RequestError(400, "no such language"), "no such language"),
        (RequestError(503, "the worker is gone", retry_after=0.001), "the worker is gone"),
        (ValueError("secret text"), "internal error"),
    ],
)
def test_errors(error: Exception, message: str, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    async def scenario() -> None:
        store = documents(tmp_path, UpperCase(error))
        document = add(store, b"fail")
        await finish(document)
        assert (document.state, document.error, document.content) == ("error", message, b"")
        with pytest.raises(RequestError, match=message) as reported:
            await store.take(document)
        assert reported.value.status == 400

    asyncio.run(scenario())
    assert "secret" not in caplog.text


def test_a_document_waits_while_the_server_is_full(tmp_path: Path) -> None:
    class Full(UpperCase):
        refusals = 3

        async def translate_line(self, *arguments: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise RequestError(503, "full", retry_after=0.001)
            return await super().translate_line(*arguments)

    async def scenario() -> None:
        store = documents(tmp_path, Full())
        document = add(store)
        await finish(document)
        assert await store.take(document) == b"ONE\nTWO\n"

    asyncio.run(scenario())


def test_the_oldest_states_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        store = documents(tmp_path)
        first, second, third = [add(store) for _ in range(3)]
        for document in (first, second, third):
            await finish(document)
        assert store.get("me", second.identifier, second.key).finished
        assert store.get("me", third.identifier, third.key).finished
        with pytest.raises(RequestError) as error:
            store.get("me", first.identifier, first.key)
        assert error.value.status == 404

    monkeypatch.setattr("dragoman.serving.documents.documents._FINISHED", 2)
    asyncio.run(scenario())


def test_closing_ends_translations(tmp_path: Path) -> None:
    async def scenario() -> None:
        lines = UpperCase()
        lines.gate.clear()
        store = documents(tmp_path, lines)
        document = add(store)
        await asyncio.sleep(0.01)
        await store.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(RequestError):
            store.get("me", document.identifier, document.key)

    asyncio.run(scenario())
