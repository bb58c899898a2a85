"""Untrusted sentencepiece models: dangerous content is rejected before sentencepiece reads it."""

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dragoman.data.readers import Pair
from dragoman.text.model_file import check_model
from dragoman.text.model_reading import read_model
from dragoman.text.tokenizer import TokenizerConfig, train_tokenizer

# Fields of a model: (field number, value).
Fields = list[tuple[int, int | float | bytes]]
PIECE, TRAINER, NORMALIZER, SELF_TEST, DENORMALIZER = 1, 2, 3, 4, 5
KINDS = ["unigram", "bpe", "word"]


def number(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + number(value >> 7)


def message(fields: Fields) -> bytes:
    """Return the fields in the format of protocol buffers."""
    data = b""
    for field, value in fields:
        if isinstance(value, int):
            data += number(field << 3) + number(value)
        elif isinstance(value, float):
            data += number(field << 3 | 5) + struct.pack("<f", value)
        else:
            data += number(field << 3 | 2) + number(len(value)) + value
    return data


@cache
def model(kind: Any) -> bytes:
    pairs = [Pair("1 2 3 4 lamp", "4 5 6 7 door")] * 9
    with TemporaryDirectory() as folder:
        train_tokenizer(pairs, TokenizerConfig(kind=kind, vocabulary_size=300)).save(Path(folder))
        return (Path(folder) / "tokenizer.model").read_bytes()


def piece(text: bytes = b"new", score: float = -3.0, **more: int) -> tuple[int, bytes]:
    return PIECE, message([(1, text), (2, score), *((3, value) for value in more.values())])


@pytest.mark.parametrize("kind", KINDS)
def test_models_that_dragoman_writes_are_accepted(kind: str) -> None:
    check_model(model(kind))
    check_model(model(kind) + message([piece()]))
    assert read_model(model(kind) + message([piece()])).size == read_model(model(kind)).size + 1


@pytest.mark.parametrize(
    ("added", "reason"),
    [
        ([(NORMALIZER, message([(2, b"\x10\0\0\0" + b"\xff" * 16)]))], "normalises text"),
        ([(DENORMALIZER, message([(2, b"x")]))], "normalises text"),
        ([(SELF_TEST, b"")], "unknown field"),
        ([(PIECE, 3)], "unknown field"),
        ([(200, b"x")], "unknown field"),
        ([piece(score=float("nan"))], "score"),
        ([piece(score=float("inf"))], "score"),
        ([piece(text=b"")], "without text"),
        ([piece(text=b"a\0b")], "without text"),
        ([piece(text=b"\xff")], "utf-8"),
        ([piece(kind=7)], "unknown type"),
        ([(PIECE, message([(2, -1.0)]))], "without text"),
        ([(PIECE, message([(1, b"a"), (2, 3)]))], "score"),
        ([(PIECE, message([(1, b"a")])[:-1])], "truncated"),
        ([(TRAINER, b"\x80" * 12)], "not a sentencepiece model"),
        ([(TRAINER, b"\x0b")], "not a sentencepiece model"),
    ],
)
def test_unexpected_content_is_refused(added: Fields, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_model(model("unigram") + message(added))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"<0x41>", b"<0xZZ>"),
        lambda data: data.replace(b"</s>", b"<//>"),
        lambda data: b"",
        lambda data: b"\0" * 99,
    ],
)
def test_a_model_without_bytes_or_special_symbols_is_refused(change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(ValueError, match="sentencepiece"):
        read_model(change(model("unigram")))


def test_a_truncated_model_is_refused() -> None:
    data = model("unigram")
    for end in range(0, len(data), 41):
        with pytest.raises(ValueError, match="sentencepiece"):
            read_model(data[:end])
