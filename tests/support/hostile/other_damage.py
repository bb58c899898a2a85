"""Damage to the shortlist and alignment.json, replacements of files, hostile search settings and text."""

import json
import random
import struct
from collections.abc import Callable
from typing import Any

from tests.support.hostile.folder import (
    ALIGNMENT,
    SHORTLIST,
    Files,
    Holes,
    Odd,
    Raw,
    Tensor,
    content_of,
    json_text,
    safetensors_bytes,
    seal,
    tensors_of,
)
from tests.support.hostile.values import any_value, shown


def _flipped(draw: random.Random, data: bytes) -> tuple[bytes, str]:
    changed = bytearray(data)
    change = draw.choice(["flips", "flips", "cut", "appended", "empty"])
    if change == "flips":
        for _ in range(draw.choice([1, 1, 3, 30])):
            changed[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    elif change == "cut":
        del changed[draw.randrange(len(data)) :]
    elif change == "appended":
        changed += draw.randbytes(draw.choice([1, 8, 4096]))
    else:
        changed.clear()
    return bytes(changed), change


def _sealed(draw: random.Random, files: Files) -> str:
    if draw.random() < 0.25:
        return ""
    seal(files)
    return ", digests corrected"


def shortlist(draw: random.Random, files: Files) -> str:
    if draw.random() < 0.3:
        files[SHORTLIST], change = _flipped(draw, content_of(files, SHORTLIST))
        return change + _sealed(draw, files)
    tensors: dict[Any, Tensor] = tensors_of(content_of(files, SHORTLIST))
    name = draw.choice(list(tensors))
    tensor = tensors[name]
    count = len(tensor.data) // 8
    ids = list(struct.unpack(f"<{count}q", tensor.data))
    change = draw.choice(
        ["values", "values", "values", "dtype", "shape", "missing", "extra", "order", "empty", "twice"]
    )
    if change == "values":
        for _ in range(draw.choice([1, 1, 5])):
            ids[draw.randrange(count)] = draw.choice(
                [-1, 0, 1, 2, 3, count, 339, 340, 2**31, 2**32, 2**63 - 1, -(2**63)]
            )
    elif change == "order":
        draw.shuffle(ids)
    elif change == "empty":
        ids = []
    elif change == "twice":
        ids *= 2
    tensor.data = struct.pack(f"<{len(ids)}q", *ids)
    tensor.shape = [len(ids)]
    if change == "dtype":
        tensor.dtype = draw.choice(["F64", "U64", "F8_E4M3", "I8", "BOOL", "F32", "I32", "BF16", "F16"])
        width = {"F64": 1, "U64": 1, "F32": 2, "I32": 2, "BF16": 4, "F16": 4}.get(tensor.dtype, 8)
        tensor.shape = [len(ids) * width]
        change += f" {tensor.dtype}"
    elif change == "shape":
        tensor.shape = draw.choice([[count, 1], [1, count], [1, 1, count], [1] * 40 + [count]])
        if draw.random() < 0.3:
            tensor.shape, tensor.data = draw.choice([([], struct.pack("<q", 3)), ([0], b""), ([0, 2**40], b"")])
        change += f" {tensor.shape}"
    elif change == "missing":
        del tensors[name]
    elif change == "extra":
        tensors["\x1b[31m\n"] = Tensor("I64", [1], bytes(8))
    files[SHORTLIST] = safetensors_bytes(tensors, metadata={})
    return f"{name}: {change}" + _sealed(draw, files)


def alignment(draw: random.Random, files: Files) -> str:
    data = content_of(files, ALIGNMENT)
    if draw.random() < 0.3:
        files[ALIGNMENT], change = _flipped(draw, data)
        return change + _sealed(draw, files)
    choice: Any = json.loads(data)
    key = draw.choice(list(choice))
    change = draw.choice(["value", "value", "value", "missing", "unknown", "twice", "other"])
    if change == "value":
        choice[key] = draw.choice([-1, 1, 2, 10**6, 2**31, 2**63, 10**30, None, any_value(draw), any_value(draw)])
        change = f"{key} = {shown(choice[key])}"
    elif change == "missing":
        del choice[key]
    elif change == "unknown":
        choice["\x1b[31m\n"] = 1
    elif change == "twice":
        choice[Raw(json_text(key))] = any_value(draw)
    else:
        choice = any_value(draw)
        change = shown(choice)
    files[ALIGNMENT] = json_text(choice).encode()
    return change + _sealed(draw, files)


def replacement(draw: random.Random, files: Files) -> str:
    """Replace a file by something else, or add one."""
    recipes = []
    for _ in range(draw.choice([1, 1, 1, 2])):
        name = draw.choice([*files, *files, "README.md", "notes.txt"])
        old = files.get(name)
        content = draw.choice([*Odd, b"", Holes(b"", 1 << 33), Holes(old if isinstance(old, bytes) else b"", 1 << 33)])
        files[name] = content
        recipes.append(
            f"{name} is {content.value if isinstance(content, Odd) else 'empty' if content == b'' else 'holes'}"
        )
    return ", ".join(recipes)


SHORTLIST_DAMAGES: list[Callable[[random.Random, Files], str]] = [shortlist]
ALIGNMENT_DAMAGES: list[Callable[[random.Random, Files], str]] = [alignment]
FILE_DAMAGES: list[Callable[[random.Random, Files], str]] = [replacement]

# Options of `dragoman translate`, with values out of range or at its limits.
_INTEGERS = [-(2**63), -(2**31), -1, 0, 1, 2**16, 2**31 - 5, 2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 10**30]
_FLOATS = [float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e-300, 1e9, 1e300, 2.0**31, 2.0**63]
SETTINGS: dict[str, list[Any]] = {
    "beam": [*_INTEGERS, 3, 16],
    "n_best": [*_INTEGERS, 2],
    "length_penalty": [*_FLOATS, 0.6],
    "max_length_factor": [*_FLOATS, 3.0],
    "max_length_offset": [2_147_483_643, *_INTEGERS, 50],
    "min_length_factor": [*_FLOATS, 1.0],
    "max_source_tokens": [*_INTEGERS, 3, 50],
    "batch_tokens": [*_INTEGERS, 100],
    "threads": [-(2**63), -1, 0, 1, 2, 3],
    "temperature": [*_FLOATS, 0.5],
    "top_k": [*_INTEGERS, 5],
    "top_p": [*_FLOATS, 0.5],
    "min_p": [*_FLOATS, 0.5],
    "seed": _INTEGERS,
}


def settings(draw: random.Random) -> dict[str, Any]:
    chosen = {name: draw.choice(SETTINGS[name]) for name in draw.sample(list(SETTINGS), draw.choice([1, 1, 1, 2, 3]))}
    if {"temperature", "top_k", "top_p", "min_p", "seed"} & chosen.keys():
        chosen["sample"] = True
    return chosen | {"json": True}


def text(draw: random.Random) -> bytes:
    """Return a few lines of hostile text."""
    return b"\n".join(_line(draw) for _ in range(draw.randrange(1, 5))) + draw.choice([b"\n", b"\n", b""])


def _line(draw: random.Random) -> bytes:
    length = draw.choice([1, 5, 40, 200, 200, 600])
    characters = "a ▁.<>/s0x\t\r\0\u200b\u202e\u2028\u0301\ud7ff\ufeff\ufffd\uffff😀𠀀ﷺ漢é"
    kinds: list[Callable[[], bytes]] = [
        lambda: draw.randbytes(length),
        lambda: draw.choice(characters).encode() * length,
        lambda: "".join(draw.choices(characters, k=length)).encode(),
        lambda: draw.choice([b"", b" ", b"\0", b"\r", b"</s>", b"<unk><s></s><pad><0x00>", b"\xed\xa0\x80\xff"]),
        lambda: b"the lamp is on " * (length // 10),
        lambda: "".join(
            chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])) for _ in range(length)
        ).encode(),
        lambda: b". " * length,
        lambda: ("a" + "\u0301" * length).encode(),
    ]
    return draw.choice(kinds)().replace(b"\n", b"")
