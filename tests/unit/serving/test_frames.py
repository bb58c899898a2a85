"""Messages between the processes of a server, also those that no process should send."""

import asyncio
import math
from struct import pack

import pytest

from dragoman.errors import ModelError, SettingsError
from dragoman.serving.lines import LineOptions
from dragoman.serving.workers.frames import MAX_FRAME_BYTES, FrameError, encode_frame, read_frame
from dragoman.serving.workers.messages import Failure, LineRequest, read_number, read_part
from dragoman.settings import to_mapping
from dragoman.translation.results import Alternative, Translation


async def read_all(data: bytes) -> list[dict[str, object]]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    messages = []
    while (message := await read_frame(reader)) is not None:
        messages.append(message)
    return messages


def framed(body: bytes) -> bytes:
    return pack("!I", len(body)) + body


def test_messages_come_back() -> None:
    messages: list[dict[str, object]] = [{"ping": 1}, {}, {"line": "é\ud800\0\u2028"}]
    assert asyncio.run(read_all(b"".join(map(encode_frame, messages)))) == messages


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pack("!I", MAX_FRAME_BYTES + 1), "announced"),
        (pack("!I", 2**32 - 1) + b"{}", "announced"),
        (b"\0\0", "cut off"),
        (pack("!I", 5), "cut off"),
        (pack("!I", 5) + b"{}", "cut off"),
        (framed(b""), "damaged"),
        (framed(b"[]"), "not a JSON object"),
        (framed(b'{"a": 1'), "damaged"),
        (framed(b"\xff\xfe"), "not UTF-8"),
        (framed(b'{"a":1,"a":2}'), "twice"),
        (framed(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "nested too deeply"),
        (encode_frame({"ping": 1}) + b"{", "cut off"),
    ],
)
def test_damaged_messages_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        asyncio.run(read_all(data))


def test_what_cannot_be_sent() -> None:
    with pytest.raises(FrameError, match="at most"):
        encode_frame({"line": "a" * MAX_FRAME_BYTES})
    with pytest.raises(FrameError, match="JSON"):
        encode_frame({"score": math.nan})


def test_parts_come_back() -> None:
    request = LineRequest(id=3, pair=("en", "de"), line="none", options=LineOptions(beam=2, prefix="none"))
    assert read_part(LineRequest, to_mapping(request)) == request
    translation = Translation(
        text="a",
        log_probability=-1.5,
        score=-0.1,
        alternatives=(Alternative(text="a", log_probability=-1.5, score=-0.1),),
        segments=1,
        cut=False,
        truncated=True,
        invalid_utf8=False,
        tokens=2,
        confidence=0.25,
        alignment=((0, 1), (2, 0)),
    )
    assert read_part(Translation, to_mapping(translation)) == translation


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"id": "3", "pair": ["en", "de"], "line": "", "options": {}},
        {"id": 3, "pair": ["en"], "line": "", "options": {}},
        {"id": 3, "pair": ["en", "de"], "line": 1, "options": {}},
        {"id": 3, "pair": ["en", "de"], "line": "", "options": {"beam": True}},
        {"id": 3, "pair": ["en", "de"], "line": "", "options": {}, "more": 1},
    ],
)
def test_parts_of_another_form_are_refused(value: object) -> None:
    with pytest.raises(FrameError):
        read_part(LineRequest, value)


@pytest.mark.parametrize("value", [None, True, 1.0, "1", []])
def test_numbers_are_whole(value: object) -> None:
    with pytest.raises(FrameError):
        read_number(value)


def test_failures_keep_their_class() -> None:
    assert type(Failure.of(SettingsError("a")).error()) is SettingsError
    error = Failure.of(FloatingPointError("not finite")).error()
    assert (type(error), str(error)) == (ModelError, "not finite")
