"""A model directory in memory whose files can be replaced by anything; writers of JSON and safetensors.

The usual libraries for these formats refuse to write hostile files.
"""

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

CONFIG, WEIGHTS, ALIGNMENT, SHORTLIST = "config.json", "model.safetensors", "alignment.json", "shortlist.safetensors"
TOKENIZERS = ("tokenizer.model", "tokenizer.source.model", "tokenizer.target.model")


class Odd(Enum):
    """Replacement of a file by something else."""

    MISSING = "nothing"
    PIPE = "a named pipe without a writer"
    SOCKET = "a socket"
    DIRECTORY = "a directory"
    ZEROS = "a symbolic link to /dev/zero"
    NOTHING = "a symbolic link to /dev/null"
    ITSELF = "a symbolic link to itself"
    NOWHERE = "a symbolic link to a missing file"
    OUTSIDE = "a symbolic link to a file outside"


@dataclass(frozen=True)
class Holes:
    """A sparse file of `size` bytes: `data`, followed by zeros."""

    data: bytes
    size: int


Files = dict[str, bytes | Odd | Holes]
# Content of the file outside. A copy of a model directory must not contain it.
SECRET = b"what belongs to somebody else\n"


def read_folder(path: Path) -> Files:
    return {file.name: file.read_bytes() for file in sorted(path.iterdir()) if file.is_file()}


def write_folder(path: Path, files: Files) -> None:
    path.mkdir()
    for name, content in files.items():
        file = path / name
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif isinstance(content, Holes):
            file.write_bytes(content.data)
            os.truncate(file, content.size)
        elif content is Odd.PIPE:
            os.mkfifo(file)
        elif content is Odd.SOCKET:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(file))
        elif content is Odd.DIRECTORY:
            file.mkdir()
        elif content is Odd.ZEROS:
            file.symlink_to("/dev/zero")
        elif content is Odd.NOTHING:
            file.symlink_to("/dev/null")
        elif content is Odd.ITSELF:
            file.symlink_to(name)
        elif content is Odd.NOWHERE:
            file.symlink_to("no such file")
        elif content is Odd.OUTSIDE:
            (path.parent / "secret").write_bytes(SECRET)
            file.symlink_to("../secret")


def size_of(files: Files) -> int:
    return sum(len(content) for content in files.values() if isinstance(content, bytes))


def content_of(files: Files, name: str) -> bytes:
    content = files[name]
    assert isinstance(content, bytes)
    return content


@dataclass(frozen=True)
class Raw:
    """Text that is written to JSON unchanged; as a key, it may duplicate another key."""

    text: str


def json_text(value: Any) -> str:
    """Return JSON of plain values and `Raw` ones."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json_text(key)}: {json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    return json.dumps(value)


def config_of(files: Files) -> dict[Any, Any]:
    config: dict[Any, Any] = json.loads(content_of(files, CONFIG))
    return config


def set_config(files: Files, config: Any) -> None:
    files[CONFIG] = json_text(config).encode()


@dataclass
class Tensor:
    """A tensor as described in the header of a safetensors file; the description may be wrong."""

    dtype: Any
    shape: Any
    data: bytes
    offsets: Any = None


def tensors_of(data: bytes) -> dict[Any, Tensor]:
    header, body = header_of(data)
    header.pop("__metadata__", None)
    return {
        name: Tensor(each["dtype"], each["shape"], body[each["data_offsets"][0] : each["data_offsets"][1]])
        for name, each in header.items()
    }


def safetensors_bytes(tensors: Mapping[Any, Tensor], metadata: Any = None) -> bytes:
    """A file of these tensors, one after the other, with the digest of their bytes unless there is other metadata."""
    header: dict[Any, Any] = {}
    body = b""
    for name, tensor in tensors.items():
        place = [len(body), len(body) + len(tensor.data)]
        header[name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": place if tensor.offsets is None else tensor.offsets,
        }
        body += tensor.data
    header["__metadata__"] = {"sha256": hashlib.sha256(body).hexdigest()} if metadata is None else metadata
    return with_header(header, body)


def header_of(data: bytes) -> tuple[dict[Any, Any], bytes]:
    """The header of a safetensors file, and what follows it."""
    end = 8 + int.from_bytes(data[:8], "little")
    header: dict[Any, Any] = json.loads(data[8:end])
    return header, data[end:]


def with_header(header: Any, body: bytes) -> bytes:
    text = json_text(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def as_format_1(files: Files) -> None:
    """Make it a directory as older versions wrote it: without digests, so that every check must do without them."""
    config = config_of(files)
    config["format"] = 1
    config.pop("digests", None)
    config["vocabulary_hash"] = None
    set_config(files, config)
    files[WEIGHTS] = safetensors_bytes(tensors_of(content_of(files, WEIGHTS)), metadata={})


def seal(files: Files) -> None:
    """Correct all digests, so that later checks are reached."""
    weights = files.get(WEIGHTS)
    if isinstance(weights, bytes):
        header, body = header_of(weights)
        header["__metadata__"] = {"sha256": hashlib.sha256(body).hexdigest()}
        files[WEIGHTS] = with_header(header, body)
    config = config_of(files)
    vocabularies = [files[name] for name in TOKENIZERS if name in files]
    if config.get("vocabulary_hash") is not None and all(isinstance(each, bytes) for each in vocabularies):
        parts = (hashlib.sha256(each).digest() for each in vocabularies if isinstance(each, bytes))
        config["vocabulary_hash"] = hashlib.sha256(b"".join(parts)).hexdigest()
    digests = config.get("digests")
    if isinstance(digests, dict):
        for name in digests:
            content = files.get(name)
            if isinstance(content, bytes):
                digests[name] = hashlib.sha256(content).hexdigest()
    set_config(files, config)
