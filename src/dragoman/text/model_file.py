"""What may be in a sentencepiece model, looked at before sentencepiece reads it: the file may come from anybody.

Sentencepiece follows a table of normalisation (`precompiled_charsmap`) wherever it points. Ours have none: text is not
normalised. The format is protocol buffers (sentencepiece_model.proto), of which this reads what the checks need.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any

# Fields of a model, of one of its pieces, and of what says how text is normalised.
_PIECE, _TRAINER, _NORMALIZER, _DENORMALIZER = 1, 2, 3, 5
_TEXT, _SCORE, _TYPE, _TYPES = 1, 2, 3, range(1, 7)
_TABLE = 2
# How it was learned, and how text is normalised, takes some hundred bytes.
LARGEST_PART = 1 << 16
# Wire types: a number, eight bytes, bytes with their length before them, four bytes.
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def check_model(serialized: bytes) -> None:
    """Check that a serialised model has nothing but pieces with finite scores, and normalises nothing.

    Raises ValueError when it has something else, or cannot be read.
    """
    pieces = 0
    for field, value in _fields(serialized):
        if field == _PIECE and isinstance(value, bytes):
            _check_piece(value)
            pieces += 1
        elif field in (_TRAINER, _NORMALIZER, _DENORMALIZER) and isinstance(value, bytes):
            if len(value) > LARGEST_PART:
                raise ValueError(f"a sentencepiece model with a part of {len(value):,} bytes")
            for inner, table in _fields(value):
                if field != _TRAINER and inner == _TABLE and table:
                    raise ValueError("a sentencepiece model that normalises text")
        else:
            raise ValueError("a sentencepiece model with something unknown in it")
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
        raise ValueError("a sentencepiece model with a subword of no text")
    text.decode()


def _fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield the fields of a message, in order."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            number, place = _varint(data, place)
            yield field, number
            continue
        length = {_EIGHT: 8, _FOUR: 4}.get(wire, 0)
        if wire == _BYTES:
            length, place = _varint(data, place)
        elif not length:
            raise ValueError("not a sentencepiece model")
        value, place = data[place : place + length], place + length
        if place > len(data):
            raise ValueError("a sentencepiece model that is cut off")
        yield field, struct.unpack("<f", value)[0] if wire == _FOUR else value


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """Return the number that begins at `place`, in seven bits a byte, and where it ends."""
    number = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise ValueError("a sentencepiece model that is cut off")
        byte, place = data[place], place + 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
    raise ValueError("not a sentencepiece model")
