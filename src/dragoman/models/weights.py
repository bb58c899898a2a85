"""Reading and writing of model.safetensors, one tensor at a time and without torch; matrices may be int8.

A file may come from an untrusted source. Before a tensor is read, the header is compared with the tensors that the
settings of the model list, so that no memory is allocated beyond the size of the file itself.
"""

import hashlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
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
# Suffix of the tensor with the scales of an int8 matrix, one for each row.
SCALE = ".scale"
# Enough for the largest number of layers that the settings allow. Parsing needs up to 25 times as much memory.
LARGEST_HEADER = 2 << 20
# Trained weights are far smaller. Larger weights overflow in some precisions or for some sentences only.
LARGEST_WEIGHT = 2.0**63
# Key of the metadata in a header; all other keys are names of tensors.
_METADATA = "__metadata__"

# NumPy types by safetensors' names of types. NumPy has no bf16, which is read as the upper half of a float32.
_FLOATS: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}
_INT8: dict[str, np.dtype[Any]] = {"I8": np.dtype("i1")}
_INT64: dict[str, np.dtype[Any]] = {"I64": np.dtype("<i8")}
_KINDS = _FLOATS | _INT8 | _INT64

Array = NDArray[Any]


class WeightsFile:
    """An open weights file, which contains exactly the tensors that the settings of the model list.

    Attributes:
        names: names of the weights, sorted.
        quantized: True if at least one matrix is stored as int8.
    """

    def __init__(self, path: Path, file: BufferedReader, start: int, entries: Mapping[str, "_HeaderEntry"]) -> None:
        self._path, self._file, self._start, self._entries = path, file, start, entries
        scales = {name + SCALE for name, entry in entries.items() if entry.kind == "I8"}
        self.names = sorted(entries.keys() - scales)
        self.quantized = bool(scales)

    def read(self, name: str) -> Array:
        """Return a tensor as float32, or as int64 if it is stored as int64.

        Raises:
            FloatingPointError: a value is not finite, or its magnitude is not below `LARGEST_WEIGHT`.
            ModelError: the file was truncated after it was opened.
        """
        entry = self._entries[name]
        values: Array = np.empty(entry.shape, np.dtype(np.int64 if entry.kind in _INT64 else np.float32))
        self.read_into(name, values)
        return values

    def read_into(self, name: str, values: Array) -> None:
        """Read a tensor into the array `values`, without an intermediate copy where possible; see `read`."""
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
        # Written so that NaN, for which comparisons are false, is rejected.
        if not (values.min(initial=0) > -LARGEST_WEIGHT and values.max(initial=0) < LARGEST_WEIGHT):
            raise FloatingPointError(
                f"{self._path}: {name} has values that are not finite or far too large: training diverged, or the file "
                "is damaged"
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
            raise ModelError(f"{self._path} was changed while it was read: run the command again")


def quantize(matrix: Array) -> tuple[Array, Array]:
    """Return a matrix [N, K] as int8 in -127..127, and a scale for each row [N]: its largest magnitude / 127.

    The quantization is symmetric, per row, and uses only the weights, without calibration data (per channel, Wu et al.,
    "Integer quantization for deep learning inference", 2020, section 3).

    Example:
        >>> import numpy as np
        >>> units, scale = quantize(np.array([[0.0, 0.5, -1.0]], dtype=np.float32))
        >>> units.tolist()
        [[0, 64, -127]]
    """
    scale = (np.abs(matrix).max(axis=1) / np.float32(127)).astype(np.float32)
    # [N, K] / [N, 1]; a row of zeros is divided by 1
    units = matrix / np.where(scale > 0, scale, 1)[:, None]
    return np.rint(units).astype(np.int8), scale


def dequantize(units: Array, scale: Array, out: Array) -> None:
    """Write the float32 matrix represented by int8 units [N, K] and scales [N] into `out`."""
    # [N, K] * [N, 1] -> [N, K]
    with np.errstate(over="ignore", invalid="ignore"):
        np.multiply(units, scale[:, None], out=out)


@contextmanager
def open_weights(directory: Path, config: ModelConfig) -> Iterator[WeightsFile]:
    """Open the weights of a model directory, after checking that they belong to a model with these settings.

    Names, shapes and types are compared with the tensors that the settings list, sizes with the size of the file, and
    the contents with the digest in the header.

    Args:
        directory: the model directory.
        config: settings of the model.

    Raises:
        ModelError: the file is missing or damaged, or belongs to a different model.
    """
    with ExitStack() as stack:
        try:
            weights = stack.enter_context(open_tensors(directory / WEIGHTS_FILE, config.tensors()))
        except FileNotFoundError:
            raise ModelError(f"{directory} has no {WEIGHTS_FILE}: training has not written a model yet") from None
        yield weights


@contextmanager
def open_tensors(path: Path, tensors: Iterable[TensorShape], ignored: Collection[str] = ()) -> Iterator[WeightsFile]:
    """Open a safetensors file, after checking that it contains exactly these tensors.

    Args:
        path: the file.
        tensors: names and shapes of the tensors, which follow from the settings in config.json.
        ignored: names of further tensors, which are not checked.

    Raises:
        FileNotFoundError: the file does not exist.
        ModelError: the file is damaged, or its tensors are different ones.
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(path))
            weights = _open_checked(file, path, tensors, ignored)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _damaged(path, reason_of(error)) from error
        yield weights


def tensor_names(path: Path) -> list[str]:
    """Return the names of the tensors of a safetensors file, in the order of its header; the tensors are not checked.

    Raises:
        FileNotFoundError: the file does not exist.
        ModelError: the header is damaged.
    """
    try:
        with open_regular(path) as file:
            header, _ = _read_header(file)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise _damaged(path, reason_of(error)) from error
    return [name for name in header if name != _METADATA]


def write_weights(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write tensors to a safetensors file, with the digest of their values in its header.

    The digest is the only metadata, because safetensors writes several entries in a random order.

    Args:
        path: the file, which is replaced atomically.
        tensors: NumPy arrays by name.
    """
    plain = dict(tensors)
    digest = hashlib.sha256(_tensor_bytes(save(plain))).hexdigest()
    write_atomically(path, save(plain, metadata={"sha256": digest}))


def _tensor_bytes(data: bytes) -> memoryview:
    """Return the part of a safetensors file after its header."""
    return memoryview(data)[8 + int.from_bytes(data[:8], "little") :]


class _HeaderEntry:
    """Type, shape and offsets of a tensor, from the header of the file.

    Args:
        value: the entry as parsed from JSON, not yet checked.
    """

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
            raise ValueError("its header has an entry that does not describe a tensor")
        kind, sizes, offsets = value["dtype"], value["shape"], value["data_offsets"]
        lists = isinstance(sizes, list) and isinstance(offsets, list) and len(offsets) == 2
        if (
            not isinstance(kind, str)
            or not lists
            or not all(type(number) is int and number >= 0 for number in (*sizes, *offsets))
        ):
            raise ValueError("its header has a tensor with an invalid type, shape or offset")
        self.kind = kind
        self.shape = tuple(sizes)
        self.begin, self.end = offsets

    def fits(self) -> bool:
        """Return True if the offsets agree with the shape and the type."""
        return self.end - self.begin == math.prod(self.shape) * _KINDS[self.kind].itemsize


def _open_checked(
    file: BufferedReader, path: Path, tensors: Iterable[TensorShape], ignored: Collection[str]
) -> WeightsFile:
    try:
        header, start = _read_header(file)
        digest = _digest(header.pop(_METADATA, {}))
        entries = {name: _HeaderEntry(value) for name, value in header.items()}
        _check_offsets(entries, os.fstat(file.fileno()).st_size - start)
    except ValueError as error:
        raise _damaged(path, error) from error
    entries = {name: entry for name, entry in entries.items() if name not in ignored}
    _compare_with_settings(entries, path, tensors)
    file.seek(start)
    if digest is not None and hashlib.file_digest(file, "sha256").hexdigest() != digest:
        raise _damaged(path, "its contents do not match the digest in its header")
    return WeightsFile(path, file, start, entries)


def _read_header(file: BufferedReader) -> tuple[dict[str, Any], int]:
    """Return the header, and the offset of the first tensor."""
    length_bytes = file.read(8)
    length = int.from_bytes(length_bytes, "little")
    if len(length_bytes) < 8 or length > os.fstat(file.fileno()).st_size - 8:
        raise ValueError("its header is truncated")
    if length > LARGEST_HEADER:
        raise ValueError(f"its header has {length:,} bytes; at most {LARGEST_HEADER:,} are allowed")
    return parse_json_object(file.read(length)), 8 + length


def _digest(metadata: Any) -> str | None:
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise ValueError("its metadata are not a table of strings")
    return metadata.get("sha256")


def _check_offsets(entries: Mapping[str, _HeaderEntry], size: int) -> None:
    """Check that the tensors are contiguous and fill the file."""
    end = 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != end or entry.end < entry.begin:
            raise ValueError("its tensors overlap, or have gaps between them")
        end = entry.end
    if end != size:
        raise ValueError(f"its header describes {end:,} bytes, but {size:,} bytes follow")


def _compare_with_settings(entries: Mapping[str, _HeaderEntry], path: Path, tensors: Iterable[TensorShape]) -> None:
    """Check that the tensors are exactly those that the settings list."""
    remaining = dict(entries)
    advice = "the two files belong to different models: copy the directory again"
    for tensor in tensors:
        entry = remaining.pop(tensor.name, None)
        if entry is None:
            raise ModelError(f"{path} lacks {tensor.name}, which config.json requires; {advice}")
        _check_kind(entry, tensor, path)
        if entry.shape != tensor.shape:
            raise ModelError(
                f"{path}: {tensor.name} has shape {quoted(list(entry.shape))}, but config.json requires "
                f"{list(tensor.shape)}; {advice}"
            )
        if not entry.fits():
            raise _damaged(path, f"the size of {tensor.name} does not match its shape")
        if entry.kind == "I8":
            scale = remaining.pop(tensor.name + SCALE, None)
            if scale is None or scale.kind != "F32" or scale.shape != entry.shape[:1] or not scale.fits():
                raise _damaged(path, f"{tensor.name} is int8, but has no float32 scale for each row")
    if remaining:
        raise ModelError(
            f"{path} has {len(remaining)} unknown weights; the first is {quoted(min(remaining))}; {advice}"
        )


def _check_kind(entry: _HeaderEntry, tensor: TensorShape, path: Path) -> None:
    kinds = _INT64 if tensor.integer else _FLOATS | _INT8 if len(tensor.shape) == 2 else _FLOATS
    if entry.kind not in kinds:
        raise ModelError(
            f"{path}: {tensor.name} has the unsupported type {quoted(entry.kind)}: save it as {' or '.join(kinds)}"
        )


def _damaged(path: Path, reason: object) -> ModelError:
    return ModelError(f"{path} is damaged: {reason}; copy it again, or train again")
