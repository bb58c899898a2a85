"""Documents that are translated in the background."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from dragoman.serving.document_formats import format_of
from dragoman.serving.documents import Document, DocumentLimits, Documents
from dragoman.serving.request_error import RequestError
from dragoman.serving.service import TextOptions, TranslationService
from tests.support.serving_deepl import UpperCase

OPTIONS = TextOptions(source="en", target="de")
TEXT = format_of("a.TXT")
Scenario = Callable[[], Coroutine[Any, Any, None]]


def documents(lines: UpperCase | None = None, limits: DocumentLimits | None = None) -> Documents:
    return Documents(TranslationService(lines or UpperCase()), limits)


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
def test_every_line_is_translated(content: bytes) -> None:
    async def scenario() -> None:
        store = documents()
        document = add(store, content)
        await finish(document)
        assert document.error == ""
        assert store.take("me", document.identifier, document.key).content == content.upper()

    assert all(len(text) < 10_000 for text in TEXT.texts(content))
    asyncio.run(scenario())


def test_formats() -> None:
    for name in ("a.docx", "a", ".txt", ""):
        with pytest.raises(RequestError, match=r"cannot be translated; these can: \.txt") as error:
            format_of(name)
        assert error.value.status == 400
    with pytest.raises(RequestError, match=r"not UTF-8 \(at byte 3\)"):
        TEXT.texts(b"abc\xff")


def test_a_result_is_taken_once_and_by_its_owner() -> None:
    async def scenario() -> None:
        lines = UpperCase()
        lines.gate.clear()
        store = documents(lines)
        document = add(store)
        assert document.state == "queued"
        with pytest.raises(RequestError) as error:
            store.take("me", document.identifier, document.key)
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
        store.take("me", document.identifier, document.key)
        with pytest.raises(RequestError) as error:
            store.take("me", document.identifier, document.key)
        assert error.value.status == 404

    asyncio.run(scenario())


def test_limits() -> None:
    async def scenario() -> None:
        for limits in (DocumentLimits(documents=1), DocumentLimits(stored_bytes=10)):
            store = documents(limits=limits)
            document = add(store)
            with pytest.raises(RequestError) as error:
                add(store)
            assert error.value.status == 429
            await finish(document)
            store.take("me", document.identifier, document.key)
            add(store)
            await store.close()
        short = documents(limits=DocumentLimits(seconds=0.05))
        document = add(short)
        await finish(document)
        await asyncio.sleep(0.06)
        with pytest.raises(RequestError) as error:
            short.get("me", document.identifier, document.key)
        assert error.value.status == 404
        lines = UpperCase()
        lines.gate.clear()
        stuck = add(documents(lines, DocumentLimits(seconds=0.01)))
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
def test_errors(error: Exception, message: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        store = documents(UpperCase(error))
        document = add(store, b"fail")
        await finish(document)
        assert (document.state, document.error, document.content) == ("error", message, b"")
        with pytest.raises(RequestError, match=message) as reported:
            store.take("me", document.identifier, document.key)
        assert reported.value.status == 400

    asyncio.run(scenario())
    assert "secret" not in caplog.text


def test_a_document_waits_while_the_server_is_full() -> None:
    class Full(UpperCase):
        refusals = 3

        async def translate_line(self, *arguments: Any) -> Any:
            if self.refusals:
                self.refusals -= 1
                raise RequestError(503, "full", retry_after=0.001)
            return await super().translate_line(*arguments)

    async def scenario() -> None:
        document = add(documents(Full()))
        await finish(document)
        assert document.content == b"ONE\nTWO\n"

    asyncio.run(scenario())
