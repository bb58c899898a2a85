"""Messages between the processes of a server: JSON objects, each after its length."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from struct import Struct

from dragoman.files import parse_json_object

# Bytes of a message. A request with 50,000 characters has at most 600,000.
MAX_FRAME_BYTES = 16 << 20
_LENGTH = Struct("!I")


class FrameError(Exception):
    """A message that is too long, is cut off, or is not a JSON object."""


def encode_frame(message: Mapping[str, object]) -> bytes:
    """Return a message as bytes: 4 bytes with the length of the rest, then JSON in ASCII.

    Raises:
        FrameError: if it has more than `MAX_FRAME_BYTES` bytes, or a number that is not finite.
    """
    body = encode_message(message)
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"a message has {len(body):,} bytes, but at most {MAX_FRAME_BYTES:,} are allowed")
    return _LENGTH.pack(len(body)) + body


def encode_message(message: Mapping[str, object]) -> bytes:
    """Return a message as JSON in ASCII, for a socket that keeps the boundaries of messages.

    Raises:
        FrameError: if it has a number that is not finite.
    """
    try:
        return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:
        raise FrameError(f"a message cannot be written as JSON: {error}") from error


def decode_message(body: bytes) -> dict[str, object]:
    """Return the message in JSON text.

    Raises:
        FrameError: if it is not a JSON object.
    """
    try:
        return parse_json_object(body)
    except ValueError as error:
        raise FrameError(f"a message is damaged: {error}") from error


async def read_frame(reader: asyncio.StreamReader) -> dict[str, object] | None:
    """Return the next message; None if the other process has closed the connection.

    Raises:
        FrameError: if the message is too long, is cut off, or is not a JSON object.
    """
    try:
        head = await reader.readexactly(_LENGTH.size)
        [length] = _LENGTH.unpack(head)
        if length > MAX_FRAME_BYTES:
            raise FrameError(f"a message of {length:,} bytes is announced, but at most {MAX_FRAME_BYTES:,} are allowed")
        return decode_message(await reader.readexactly(length))
    except asyncio.IncompleteReadError as error:
        if error.partial or error.expected != _LENGTH.size:
            raise FrameError("a message is cut off") from error
        return None
    except ConnectionError:
        return None
