"""model.safetensors, read one tensor at a time and without torch; its matrices may be int8.

A file may come from anybody. Its header is checked against what the model's settings list before a tensor is read, so
that nothing is allocated whose size the file itself does not have.
"""

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from dragoman.errors import ModelError, quoted, reason_of
from dragoman.files import open_regular, parse_json_object, write_atomically
from dragoman.models.config import ModelConfig
from dragoman.models.shapes import TensorShape

WEIGHTS_FILE = "model.safetensors"
# Beside an int8 matrix stands what one unit of each of its rows is worth.
SCALE = ".scale"
# Enough for as many layers as the settings allow. Reading it takes up to 25 times its size.
LARGEST_HEADER = 2 << 20
# No trained weight comes near it. Larger ones overflow in one precision or for one sentence, and not in others.
LARGEST_WEIGHT = 2.0**63

# By the names that the file has for them; NumPy has no bf16, the upper half of a float32.
_FLOATS: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
_INT8: dict[str, np.dtype[Any]] = {"I8": np.dtype("i1")}
_INT64: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8")}
_KINDS = _FLOATS | _INT8 | _INT64

Array = NDArray[Any]


class WeightsFile:
    """An open weights file, whose tensors are those that the model's settings list.

    names      of the weights, sorted
    quantized  whether some matrix is stored as int8
    """

    def __init__(self, path: Path, file: BufferedReader, start: int, entries: Mapping[str, "_Entry"]) -> None:
        self._path, self._file, self._start, self._entries = path, file, start, entries
        scales = {name + SCALE for name, entry in entries.items() if entry.kind == "I8"}
        self.names = sorted(entries.keys() - scales)
        self.quantized = bool(scales)

    def read(self, name: str) -> Array:
        """Return a tensor: float32, or int64 where it is a whole number.

        Raises:
            FloatingPointError: when it has values that are not finite, or beyond `LARGEST_WEIGHT`.
            ModelError: when the file has become shorter.
        """
        entry = self._entries[name]
        values: Array = np.empty(entry.shape, np.dtype(np.int64 if entry.kind in _INT64 else np.float32))
        self.read_into(name, values)
        return values

    def read_into(self, name: str, values: Array) -> None:
        """Read a tensor to where it is needed, without a copy; see `read`."""
        entry = self._entries[name]
        assert values.shape == entry.shape
        assert values.flags.c_contiguous
        if entry.kind in ("F32", "I64"):
            self._fill(name, values)
        elif entry.kind == "BF16":
            values.view(np.uint32)[...] = self._stored(name)
            values.view(np.uint32)[...] <<= 16
        elif entry.kind == "F16":
            values[...] = self._stored(name)
        else:
            dequantize(self._stored(name), self._stored(name + SCALE), out=values)
        # Comparisons with NaN are false.
        if not (values.min(initial=0) > -LARGEST_WEIGHT and values.max(initial=0) < LARGEST_WEIGHT):
            raise FloatingPointError(
                f"{self._path}: {name} has numbers that are not finite, or larger than any model's: its training "
                "diverged, or the file is damaged"
            )

    def _stored(self, name: str) -> Array:
        entry = self._entries[name]
        values = np.empty(entry.shape, dtype=_KINDS[entry.kind])
        self._fill(name, values)
        return values

    def _fill(self, name: str, values: Array) -> None:
        self._file.seek(self._start + self._entries[name].begin)
        buffer = values.reshape(-1).view(np.uint8).data
        if self._file.readinto(buffer) < len(buffer):
            raise ModelError(f"{self._path} became shorter while it was read: give the same command again")


def quantize(matrix: Array) -> tuple[Array, Array]:
    """A matrix [N, K] as int8 in -127..127, and a scale for each row [N], its largest magnitude over 127.

    Symmetric and without calibration: nothing but the weights is looked at (per channel, Wu et al., "Integer
    quantization for deep learning inference", 2020, section 3).
    """
    scale = (np.abs(matrix).max(axis=1) / np.float32(127)).astype(np.float32)
    # [N, K] / [N, 1]; a row of zeros stays one
    units = matrix / np.where(scale > 0, scale, 1)[:, None]
    return np.rint(units).astype(np.int8), scale


def dequantize(units: Array, scale: Array, out: Array) -> None:
    """Write the float32 matrix that int8 units [N, K] and scales [N] stand for."""
    # [N, K] * [N, 1] -> [N, K]
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(units, scale[:, None], out=out)


@contextmanager
def open_weights(directory: Path, config: ModelConfig) -> Iterator[WeightsFile]:
    """Open the weights of a model directory, after checking that they are those of a model of these settings.

    Names, shapes and types are compared with what the settings list, sizes with the file's, and its bytes with the
    digest in its header.

    Raises:
        ModelError: when the file is missing, damaged, or of another model.
    """
    path = directory / WEIGHTS_FILE
    with ExitStack() as opened:
        try:
            file = opened.enter_context(open_regular(path))
            weights = _checked(file, path, config)
        except FileNotFoundError:
            raise ModelError(f"{directory} has no {WEIGHTS_FILE}: training wrote no model yet") from None
        except OSError as error:
            raise _damaged(path, reason_of(error)) from error
        yield weights


def write_weights(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write tensors with the digest of their values in the file's own header, so that the two cannot part.

    The digest stands alone there, as the order of several entries would be random.
    """
    plain = dict(tensors)
    digest = hashlib.sha256(values_of(save(plain))).hexdigest()
    write_atomically(path, save(plain, metadata={"sha256": digest}))


def values_of(data: bytes) -> memoryview:
    """What follows the header of a safetensors file."""
    return memoryview(data)[8 + int.from_bytes(data[:8], "little") :]


class _Entry:
    """A tensor as the header has it, which is known to be JSON only."""

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError("its header has an entry that is not one of a tensor")
        kind, sizes, places = value["dtype"], value["shape"], value["data_offsets"]
        lists = isinstance(sizes, list) and isinstance(places, list) and len(places) == 2
        if (
            not isinstance(kind, str)
            or not lists
            or not all(type(number) is int and number >= 0 for number in (*sizes, *places))
        ):
            raise ValueError("its header has a tensor whose type, shape or place cannot be read")
        self.kind = kind
        self.shape = tuple(sizes)
        self.begin, self.end = places

    def fits(self) -> bool:
        """Return whether its place has the size that shape and type need."""
        return self.end - self.begin == math.prod(self.shape) * _KINDS[self.kind].itemsize


def _checked(file: BufferedReader, path: Path, config: ModelConfig) -> WeightsFile:
    try:
        header, start = _read_header(file)
        digest = _digest(header.pop("__metadata__", {}))
        entries = {name: _Entry(value) for name, value in header.items()}
        _check_places(entries, os.fstat(file.fileno()).st_size - start)
    except ValueError as error:
        raise _damaged(path, error) from error
    _compare(entries, path, config)
    file.seek(start)
    if digest is not None and hashlib.file_digest(file, "sha256").hexdigest() != digest:
        raise _damaged(path, "its bytes are not those that were written")
    return WeightsFile(path, file, start, entries)


def _read_header(file: BufferedReader) -> tuple[dict[str, Any], int]:
    """Return the header, and where the tensors begin."""
    first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > os.fstat(file.fileno()).st_size - 8:
        raise ValueError("it is cut off in its header")
    if length > LARGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes, more than any model's ({LARGEST_HEADER:,})")
    return parse_json_object(file.read(length)), 8 + length


def _digest(metadata: Any) -> str | None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not a table of texts")
    return metadata.get("sha256")


def _check_places(entries: Mapping[str, _Entry], size: int) -> None:
    """Check that the tensors lie one behind the other and fill the file."""
    end = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != end or entry.end < entry.begin:
            raise ValueError("its tensors overlap, or there is something between them")
        end = entry.end
    if end != size:
        raise ValueError(f"its header describes {end:,} bytes, but {size:,} follow it")


def _compare(entries: Mapping[str, _Entry], path: Path, config: ModelConfig) -> None:
    """Check that the tensors are those that the settings list."""
    left = dict(entries)
    advice = "the two files are of different models: copy the directory anew"
    for tensor in config.tensors():
        entry = left.pop(tensor.name, None)
        if entry is None:
            raise ModelError(f"{path} lacks {tensor.name}, which config.json asks for; {advice}")
        _check_kind(entry, tensor, path)
        if entry.shape != tensor.shape:
            raise ModelError(
                f"{path}: {tensor.name} has shape {quoted(list(entry.shape))}, but config.json asks for "
                f"{list(tensor.shape)}; {advice}"
            )
        if not entry.fits():
            raise _damaged(path, f"{tensor.name} does not have the size that its shape needs")
        if entry.kind == "I8":
            scale = left.pop(tensor.name + SCALE, None)
            if scale is None or scale.kind != "F32" or scale.shape != entry.shape[:1] or not scale.fits():
                raise _damaged(path, f"{tensor.name} is int8 without a number in float32 for each of its rows")
    if left:
        raise ModelError(f"{path} has {len(left)} unknown weights, {quoted(min(left))} first; {advice}")


def _check_kind(entry: _Entry, tensor: TensorShape, path: Path) -> None:
    kinds = _INT64 if tensor.integer else _FLOATS | _INT8 if len(tensor.shape) == 2 else _FLOATS
    if entry.kind not in kinds:
        raise ModelError(
            f"{path}: {tensor.name} is stored as {quoted(entry.kind)}, which cannot be read: save it as "
            f"{' or '.join(kinds)}"
        )


def _damaged(path: Path, reason: object) -> ModelError:
    return ModelError(f"{path} is damaged: {reason}; copy it anew, or train again")
