"""Checks of an untrusted sentencepiece model, made before sentencepiece itself reads it.

Sentencepiece does not check the bounds of a model's normalisation table (`precompiled_charsmap`). Models that Dragoman
writes have no such table, because text is not normalised, and a model that has one is rejected. The format is protocol
buffers (sentencepiece_model.proto); this module reads only the fields that it checks.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any

# Field numbers of a model, of a subword (with the valid types of a subword), and of a specification of normalisation.
_PIECE, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_TEXT, _SCORE, _TYPE, _TYPES = 1, 2, 3, range(1, 7)
_TABLE = 2
# Upper limit for the size of a specification of training or normalisation, which normally has a few hundred bytes.
LARGEST_PART = 1 << 16
# Wire types: variable-length integer, eight bytes, length-prefixed bytes, four bytes.
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def check_model(serialized: bytes) -> None:
    """Check that a serialised model contains only subwords with finite scores, and no normalisation table.

    Raises:
        ValueError: if the model contains something else, or cannot be parsed.
    """
    pieces = 0
    for field, value in _fields(serialized):
        if field == _PIECE and isinstance(value, bytes):
            _check_piece(value)
            pieces += 1
        elif field in (_TRAINER, _NORMALIZER, _DENORMALIZER) and isinstance(value, bytes):
            if len(value) > LARGEST_PART:
                raise ValueError(f"a sentencepiece model with a specification of {len(value):,} bytes")
            for inner, table in _fields(value):
                if field != _TRAINER and inner == _TABLE and table:
                    raise ValueError("a sentencepiece model that normalises text")
        else:
            raise ValueError("a sentencepiece model with an unknown field")
    if not pieces:
        raise ValueError("a sentencepiece model without subwords")


def _check_piece(data: bytes) -> None:
    text: Any = b""
    for field, value in _fields(data):
        if field == _TEXT:
            text = value
        elif field == _SCORE:
            if not isinstance(value, float) or not math.isfinite(value):
                raise ValueError("a sentencepiece model with a score that is not a finite number")
        elif field != _TYPE or value not in _TYPES:
            raise ValueError("a sentencepiece model with a subword of an unknown type")
    if not isinstance(text, bytes) or not text or b"\0" in text:
        raise ValueError("a sentencepiece model with a subword without text")
    text.decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield field number and value of each field of a message, in order."""
    offset = 0
    while offset < len(data):
        key, offset = _varint(data, offset)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            number, offset = _varint(data, offset)
            yield field, number
            continue
        length = {_EIGHT: 8, _FOUR: 4}.get(wire, 0)
        if wire == _BYTES:
            length, offset = _varint(data, offset)
        elif not length:
            raise ValueError("not a sentencepiece model")
        value, offset = data[offset : offset + length], offset + length
        if offset > len(data):
            raise ValueError("a sentencepiece model that is truncated")
        yield field, struct.unpack("<f", value)[0] if wire == _FOUR else value


def _varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the variable-length integer (seven bits per byte) at `offset`, and the offset after it."""
    number = 0
    for shift in range(0, 70, 7):
        if offset >= len(data):
            raise ValueError("a sentencepiece model that is truncated")
        byte, offset = data[offset], offset + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, offset
    raise ValueError("not a sentencepiece model")
