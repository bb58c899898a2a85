"""Damage to the tokenizer: a sentencepiece model, which is a protocol buffer."""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.hostile.folder import TOKENIZERS, Files, config_of, content_of, seal, set_config

# Field numbers in the model, and in a piece.
PIECES, TRAINER, NORMALIZER, DENORMALIZER = 1, 2, 3, 5
TEXT, SCORE, TYPE = 1, 2, 3
CHARACTER_MAP = 2  # of the normalizer
BYTE_PIECE = 6  # a type


@dataclass
class Field:
    """A field of a protocol buffer message."""

    number: int
    kind: int  # wire type: 0 varint, 1 eight bytes, 2 length-delimited, 5 four bytes
    value: bytes | int


def fields_of(data: bytes) -> list[Field]:
    fields, offset = [], 0
    while offset < len(data):
        tag, offset = _number(data, offset)
        kind = tag & 7
        if kind == 0:
            value, offset = _number(data, offset)
            fields.append(Field(tag >> 3, kind, value))
            continue
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind == 2:
            length, offset = _number(data, offset)
        fields.append(Field(tag >> 3, kind, data[offset : offset + length]))
        offset += length
    return fields


def bytes_of(fields: Sequence[Field]) -> bytes:
    written = bytearray()
    for field in fields:
        written += _varint(field.number << 3 | field.kind)
        if isinstance(field.value, int):
            written += _varint(field.value)
        else:
            written += (_varint(len(field.value)) if field.kind == 2 else b"") + field.value
    return bytes(written)


def _number(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    value = shift = 0
    while True:
        byte = data[offset]
        value |= (byte & 127) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 128:
            return value, offset


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


def _part(fields: Sequence[Field], number: int) -> Field:
    return next(field for field in fields if field.number == number)


def _set(fields: list[Field], number: int, kind: int, value: bytes | int) -> None:
    fields[:] = [field for field in fields if field.number != number]
    fields.append(Field(number, kind, value))


def _score(draw: random.Random) -> bytes:
    values = [float("nan"), float("inf"), float("-inf"), 3e38, -3e38, 0.0, 1e-40, 1e9]
    return struct.pack("<f", draw.choice(values))


def _pieces(draw: random.Random, model: list[Field]) -> str:
    """Change texts, scores and types of pieces; add or remove pieces, or change their order."""
    indices = [i for i, field in enumerate(model) if field.number == PIECES]
    change = draw.choice(
        ["score", "scores", "text", "texts", "type", "types", "more", "fewer", "order", "twice", "bytes"]
    )
    chosen = indices if change in ("scores", "texts", "types") else [draw.choice(indices)]
    texts = [
        b"",
        b"\xff\xfe",
        b"\xe2\x96\x81",
        b"\n",
        b"\0",
        b"a" * 100_000,
        b"<0x00>",
        b"<s>",
        b"\xed\xa0\x80",
        b"a b",
    ]
    text = draw.choice(texts)
    for index in chosen:
        if change not in ("score", "scores", "text", "texts", "type", "types"):
            break
        value = model[index].value
        assert isinstance(value, bytes)
        piece = fields_of(value)
        if change.startswith("score"):
            _set(piece, SCORE, 5, _score(draw))
        elif change.startswith("text"):
            _set(piece, TEXT, 2, text + (str(index).encode() if change == "texts" and draw.random() < 0.9 else b""))
        else:
            _set(piece, TYPE, 0, draw.choice([0, 1, 2, 3, 4, 5, 6, 7, 2**31, 2**63]))
        model[index].value = bytes_of(piece)
    if change == "more":
        count = draw.choice([1, 10, 20_000])
        model += [
            Field(PIECES, 2, bytes_of([Field(TEXT, 2, b"new%d" % i), Field(SCORE, 5, _score(draw))]))
            for i in range(count)
        ]
        change = f"{count} more"
    elif change == "fewer":
        keep = draw.choice([0, 1, 4, 10, 259, 260, 261, len(indices) - 1])
        model[:] = [field for i, field in enumerate(model) if i not in set(indices[keep:])]
        change = f"the first {keep} only"
    elif change == "order":
        values = [model[index].value for index in indices]
        draw.shuffle(values)
        for index, each in zip(indices, values, strict=True):
            model[index].value = each
    elif change == "twice":
        model[indices[-1]].value = model[indices[-2]].value
    elif change == "bytes":
        model[:] = [field for field in model if not _is_byte(field)]
    return f"pieces: {change}" + (f" {text[:8]!r}" if change.startswith("text") else "")


def _is_byte(field: Field) -> bool:
    if field.number != PIECES or not isinstance(field.value, bytes):
        return False
    return any(each.number == TYPE and each.value == BYTE_PIECE for each in fields_of(field.value))


def _specification(draw: random.Random, model: list[Field]) -> str:
    """Change a field of the trainer's specification."""
    part = _part(model, TRAINER)
    assert isinstance(part.value, bytes)
    inner = fields_of(part.value)
    field = draw.choice(inner)
    if isinstance(field.value, int):
        field.value = draw.choice([0, 1, 2, 3, 4, 5, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
    elif field.kind == 2:
        field.value = draw.choice([b"", b"\xff", b"x" * 10_000, b"\n"])
    else:
        field.value = _score(draw)
    part.value = bytes_of(inner)
    return f"trainer's field {field.number}"


def _normalizer(draw: random.Random, model: list[Field]) -> str:
    """Replace the map of characters, which sentencepiece traverses as a tree of offsets."""
    number = draw.choice([NORMALIZER, NORMALIZER, DENORMALIZER])
    units = draw.choice([0, 1, 16, 256, 1024])
    tree = b"".join(struct.pack("<I", draw.choice([draw.getrandbits(32), draw.getrandbits(10)])) for _ in range(units))
    stated_size = draw.choice([len(tree), len(tree), len(tree) + 4, 0, 2**31, 2**32 - 1, 3])
    blob = draw.choice(
        [
            struct.pack("<I", stated_size) + tree + draw.choice([b"", b"a\0b\0", b"abc", bytes(300)]),
            draw.randbytes(400),
            b"\0",
            b"",
        ]
    )
    part = [field for field in model if field.number == number]
    inner = fields_of(part[0].value) if part and isinstance(part[0].value, bytes) else []
    _set(inner, CHARACTER_MAP, 2, blob)
    for flag in (3, 4, 5):
        if draw.random() < 0.3:
            _set(inner, flag, 0, draw.randrange(2))
    _set(model, number, 2, bytes_of(inner))
    return f"a map of characters of {len(blob)} bytes in part {number}"


def _name(draw: random.Random, files: Files) -> str:
    return draw.choice([name for name in TOKENIZERS if name in files])


def _sealed(draw: random.Random, files: Files) -> str:
    """Correct the digests in most cases; in some, remove the hash of the vocabulary."""
    number = draw.random()
    if number < 0.2:
        return ""
    if number < 0.5:
        config = config_of(files)
        config["vocabulary_hash"] = None
        set_config(files, config)
    seal(files)
    return ", digests corrected" if number >= 0.5 else ", digests corrected, no hash of the vocabulary"


def surgery(draw: random.Random, files: Files) -> str:
    name = _name(draw, files)
    model = fields_of(content_of(files, name))
    recipe = draw.choice([_pieces, _pieces, _pieces, _specification, _normalizer])(draw, model)
    files[name] = bytes_of(model)
    return f"{name}: {recipe}" + _sealed(draw, files)


def damage(draw: random.Random, files: Files) -> str:
    name = _name(draw, files)
    data = bytearray(content_of(files, name))
    change = draw.choice(["flips", "flips", "flips", "cut", "appended", "noise", "twice", "empty"])
    if change == "flips":
        for _ in range(draw.choice([1, 1, 10, 1000])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif change == "cut":
        del data[draw.randrange(len(data)) :]
    elif change == "appended":
        data += draw.randbytes(draw.choice([1, 4, 4096]))
    elif change == "noise":
        data[:] = draw.randbytes(len(data))
    elif change == "twice":
        data *= 2
    else:
        data.clear()
    files[name] = bytes(data)
    return f"{name}: {change}" + _sealed(draw, files)


TOKENIZER_DAMAGES: list[Callable[[random.Random, Files], str]] = [surgery, surgery, damage]
