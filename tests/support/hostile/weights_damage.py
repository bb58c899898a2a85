"""Damage to model.safetensors: its header, the descriptions of tensors, and their values."""

import math
import random
import struct
from collections.abc import Callable
from typing import Any

from tests.support.hostile.folder import (
    WEIGHTS,
    Files,
    Raw,
    Tensor,
    config_of,
    content_of,
    header_of,
    json_text,
    safetensors_bytes,
    seal,
    set_config,
    tensors_of,
    with_header,
)
from tests.support.hostile.values import OTHERS, TEXTS, any_value, shown

# Size of a number in bytes.
WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
WIDTHS |= {"F8_E4M3": 1, "F8_E5M2": 1, "U64": 8, "U32": 4, "U16": 2, "C64": 8, "F8_E8M0": 1, "F4": 1, "F6_E2M3": 1}
DTYPES: list[Any] = [*WIDTHS, "float32", "F128", "f32", "", "F32\n", None, 4, ["F32"], {}]
NUMBERS = [math.nan, math.inf, -math.inf, 3e38, -3e38, 1e30, -1e30, 1e-45, -1e-40, 1e4, 0.0, 65520.0]


def metadata(draw: random.Random, files: Files) -> str:
    header, body = header_of(content_of(files, WEIGHTS))
    values = [any_value(draw), *OTHERS[:8], {"sha256": any_value(draw)}, {"sha256": "0" * 64}, {"format": "pt"}]
    values += [{"sha256": "x\ny"}, {Raw('"sha256"'): "a", "sha256": "b"}, {str(i): "x" for i in range(5000)}]
    header["__metadata__"] = draw.choice(values)
    files[WEIGHTS] = with_header(header, body)
    return f"__metadata__ = {shown(header['__metadata__'])}"


def header_text(draw: random.Random, files: Files) -> str:
    data = content_of(files, WEIGHTS)
    header, body = header_of(data)
    text = json_text(header).encode()
    length = len(text)
    texts = {
        "a list": b"[]",
        "null": b"null",
        "a number": b"1",
        "text": b'"header"',
        "nothing": b"",
        "an empty object": b"{}",
        "deep lists": b"[" * 100_000 + b"]" * 100_000,
        "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        "deep metadata": b'{"__metadata__":' + b"[" * 100_000 + b"]" * 100_000 + b"," + text[1:],
        "not UTF-8": text.replace(b"F32", b"\xff32"),
        "cut": text[: draw.randrange(length)],
        "spaces before it": b" " * 100 + text,
        "spaces after it": text + b" " * draw.randrange(100_000),
        "zeros after it": text + bytes(8),
        "every key twice": b"{" + text[1:-1] + b", " + text[1:],
        "a surrogate": text[:-1] + rb', "\ud800": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
        "an int of 5000 digits": text.replace(b"[0, ", b"[" + b"9" * 5000 + b", ", 1),
    }
    lengths = [
        0,
        1,
        length - 1,
        length + 1,
        len(data),
        len(data) - 8,
        len(data) - 7,
        2**31,
        2**63,
        2**64 - 1,
        10**8 + 1,
    ]
    flipped = bytearray(text)
    for _ in range(draw.choice([1, 1, 3])):
        flipped[draw.randrange(length)] ^= 1 << draw.randrange(8)
    texts["flips"] = bytes(flipped)
    change = draw.choice([*texts, "flips", "flips", "flips", "length", "length", "length"])
    if change == "length":
        stated_length = draw.choice(lengths)
        files[WEIGHTS] = (stated_length % 2**64).to_bytes(8, "little") + data[8:]
        return f"header length {stated_length}, not {length}"
    files[WEIGHTS] = len(texts[change]).to_bytes(8, "little") + texts[change] + body
    return f"header: {change}"


def entry(draw: random.Random, files: Files) -> str:
    """Change the entry of one tensor in the header, so that it does not fit the bytes."""
    tensors = tensors_of(content_of(files, WEIGHTS))
    name = draw.choice([name for name, each in tensors.items() if each.shape])
    tensor, total = tensors[name], sum(len(each.data) for each in tensors.values())
    change = draw.choice(["dtype", "shape", "shape", "offsets", "offsets", "whole"])
    if change == "dtype":
        tensor.dtype = draw.choice([*DTYPES, any_value(draw)])
        recipe = f"dtype {shown(tensor.dtype)}"
    elif change == "shape":
        shape = list(tensor.shape)
        axis = draw.randrange(len(shape))
        shape[axis] = draw.choice([0, -1, 1, shape[axis] + 1, 2**31, 2**32, 2**62, 2**63, 2**64, 1.5, None, "8"])
        tensor.shape = draw.choice([shape, shape, shape, [], [*shape, 1], [2**32, 2**32], [2**62, 4], any_value(draw)])
        recipe = f"shape {shown(tensor.shape)}"
    elif change == "offsets":
        n = len(tensor.data)
        tensor.offsets = draw.choice(
            [
                *([0, n], [0, 0], [n, 0], [total, total + n], [total - n, total], [1, n + 1], [-n, 0], [0, 2**63]),
                *([2**64 - n, 2**64], [2**63, 2**63 + n], [], [0], [0, n, n], [0.0, float(n)], None, any_value(draw)),
            ]
        )
        recipe = f"offsets {shown(tensor.offsets)}"
    else:
        header, body = header_of(content_of(files, WEIGHTS))
        header[name] = any_value(draw)
        files[WEIGHTS] = with_header(header, body)
        return f"{name} = {shown(header[name])}"
    files[WEIGHTS] = safetensors_bytes(tensors)
    return f"{name}: {recipe}"


def _sized(draw: random.Random, dtype: str, shape: list[int], like: bytes) -> Tensor:
    """Return a tensor of this shape with as many bytes, so that the file is consistent."""
    count = math.prod(shape) * WIDTHS[dtype]
    data = (like * (count // max(1, len(like)) + 1))[:count] if dtype == "F32" else bytes(draw.randbytes(count))
    return Tensor(dtype, shape, data.ljust(count, b"\0"))


def tensor(draw: random.Random, files: Files) -> str:
    """Replace tensors by others that are consistent with the bytes and the digest, but not with the model."""
    tensors: dict[Any, Tensor] = tensors_of(content_of(files, WEIGHTS))
    recipes = []
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        name = draw.choice(list(tensors))
        old = tensors[name]
        if not old.shape:
            continue
        shape = list(old.shape)
        change = draw.choice(["shape", "shape", "shape", "dtype", "dtype", "missing", "renamed", "extra", "all"])
        if change == "shape":
            shapes = [[], [0], [1], [0, 7, 256], [*shape, 1], [1, *shape], [math.prod(shape)], shape[::-1], [0, *shape]]
            shapes += [[*shape[:-1], 0], [shape[0] + 1, *shape[1:]], [*shape[:-1], shape[-1] + 1], [1] * 9, [0, 2**31]]
            shapes += [[*shape[:-1], max(1, shape[-1] // 2)], [max(1, shape[0] // 2), *shape[1:]], [0, 2**62], [0] * 40]
            new = draw.choice(shapes)
            tensors[name] = _sized(draw, old.dtype, new, old.data)
            recipes.append(f"{name}: shape {new}, not {shape}")
        elif change == "dtype":
            dtype = draw.choice([each for each in WIDTHS if each != old.dtype])
            tensors[name] = _sized(draw, dtype, shape, b"")
            recipes.append(f"{name}: dtype {dtype}, not {old.dtype}")
        elif change == "missing":
            del tensors[name]
            recipes.append(f"{name} missing")
        elif change == "all":
            dtype = draw.choice(["F16", "BF16", "F64", "I8"])
            tensors = {key: _sized(draw, dtype, list(each.shape), b"") for key, each in tensors.items()}
            recipes.append(f"every dtype {dtype}")
        else:
            texts = [f"{name}.scale", f"{name}.weight", "", "\x1b[2J\n", "__metadata", name.upper(), *TEXTS]
            new_name = draw.choice(texts)
            if isinstance(new_name, Raw):
                new_name = "a name"
            tensors[new_name] = (
                tensors.pop(name) if change == "renamed" else draw.choice([old, Tensor("F32", [], b"0123")])
            )
            recipes.append(f"{name} {change} as {shown(new_name)}")
        if not tensors:
            break
    files[WEIGHTS] = safetensors_bytes(tensors)
    return ", ".join(recipes)


def scale(draw: random.Random, files: Files) -> str:
    """Replace a matrix by an int8 matrix and a scale, some of wrong shapes or types."""
    tensors: dict[Any, Tensor] = tensors_of(content_of(files, WEIGHTS))
    matrices = [name for name, each in tensors.items() if len(each.shape) == 2]
    name = draw.choice(matrices)
    rows, columns = tensors[name].shape
    tensors[name] = _sized(draw, "I8", [rows, columns], b"")
    shapes = [[rows], [rows, 1], [1, rows], [], [0], [columns], [1], [rows + 1], [rows, columns], [1, 1, rows]]
    units = [[rows, columns], [rows * columns], [1, rows, columns], [columns, rows], [0, columns], [rows, 0], []]
    of_matrix, of_scale = draw.choice([[rows, columns], draw.choice(units)]), draw.choice(shapes)
    dtype = draw.choice(["F32", "F32", "F32", "F16", "F64", "I8", "BF16", "I64"])
    tensors[name] = _sized(draw, "I8", of_matrix, b"")
    tensors[f"{name}.scale"] = _sized(draw, dtype, of_scale, struct.pack("<f", draw.choice([0.01, *NUMBERS])))
    if draw.random() < 0.1:
        del tensors[f"{name}.scale"]
    files[WEIGHTS] = safetensors_bytes(tensors)
    return f"{name}: I8 {of_matrix}, scale {dtype} {of_scale}"


def resized(draw: random.Random, files: Files) -> str:
    """Change a size in the settings, and all tensors of that size with it."""
    config = config_of(files)
    sizes = {key: each for key, each in config["model"].items() if type(each) is int and each > 4}
    key = draw.choice(list(sizes))
    old, new = sizes[key], draw.choice([0, 1, 2, 3, 4, 5, sizes[key] - 1, sizes[key] + 1, 2 * sizes[key]])
    same = [name for name, size in sizes.items() if size == old]
    config["model"].update(dict.fromkeys(same, new))
    set_config(files, config)
    # Dimensions may be multiples of a size, with several heads or a gate.
    tensors = {
        name: _sized(draw, each.dtype, [dim // old * new if dim % old == 0 else dim for dim in each.shape], each.data)
        for name, each in tensors_of(content_of(files, WEIGHTS)).items()
    }
    files[WEIGHTS] = safetensors_bytes(tensors)
    return f"{', '.join(same)} = {new}, not {old}, tensors as well"


def numbers(draw: random.Random, files: Files) -> str:
    """Set weights to values that do not occur in training."""
    tensors = tensors_of(content_of(files, WEIGHTS))
    floats = [name for name, each in tensors.items() if each.dtype == "F32" and each.data]
    chosen = draw.choice(
        [[draw.choice(floats)], [draw.choice(floats)], draw.sample(floats, min(4, len(floats))), floats]
    )
    number = draw.choice(NUMBERS)
    all_of_it = draw.random() < 0.5
    for name in chosen:
        data = bytearray(tensors[name].data)
        count = len(data) // 4
        for index in range(count) if all_of_it else [draw.randrange(count)]:
            struct.pack_into("<f", data, 4 * index, number)
        tensors[name].data = bytes(data)
    files[WEIGHTS] = safetensors_bytes(tensors)
    which = chosen[0] if len(chosen) == 1 else f"{len(chosen)} tensors"
    return f"{number} {'everywhere in' if all_of_it else 'once in'} {which}"


def body(draw: random.Random, files: Files) -> str:
    """Flip bits, cut or extend the file; correct the digest in half of the cases."""
    data = bytearray(content_of(files, WEIGHTS))
    start = 8 + int.from_bytes(data[:8], "little")
    change = draw.choice(["flips", "flips", "cut", "appended", "noise", "zeros"])
    if change == "flips":
        for _ in range(draw.choice([1, 10, 1000])):
            data[draw.randrange(start, len(data))] ^= 1 << draw.randrange(8)
    elif change == "cut":
        del data[draw.choice([draw.randrange(len(data)), draw.randrange(start, len(data)), start, len(data) - 1]) :]
    elif change == "appended":
        data += draw.randbytes(draw.choice([1, 4, 4096]))
    elif change == "noise":
        data[start:] = draw.randbytes(len(data) - start)
    else:
        data[start:] = bytes(len(data) - start)
    files[WEIGHTS] = bytes(data)
    sealed = len(data) >= start and draw.random() < 0.5
    if sealed:
        seal(files)
    return change + (", digest corrected" if sealed else "")


HEADER_DAMAGES: list[Callable[[random.Random, Files], str]] = [metadata, header_text, header_text, entry, entry, entry]
TENSOR_DAMAGES: list[Callable[[random.Random, Files], str]] = [tensor, tensor, tensor, scale, resized]
BODY_DAMAGES: list[Callable[[random.Random, Files], str]] = [numbers, numbers, body]
