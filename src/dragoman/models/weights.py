"""model.safetensors, read one tensor at a time and without torch; its matrices may be int8."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from numpy.typing import NDArray
from safetensors.numpy import save

from dragoman.errors import ModelError, UserError
from dragoman.files import write_atomically

WEIGHTS_FILE = "model.safetensors"
# Beside an int8 matrix stands what one unit of each of its rows is worth.
SCALE = ".scale"

Array = NDArray[Any]


class WeightsFile:
    """An open weights file.

    names  of the weights, sorted
    """

    def __init__(self, path: Path, header: Mapping[str, Any], tensors: Any) -> None:
        self._path, self._header, self._tensors = path, header, tensors
        stored = set(tensors.keys())
        self.names = sorted(
            name for name in stored if not (name.endswith(SCALE) and name.removesuffix(SCALE) in stored)
        )

    @property
    def quantized(self) -> bool:
        """Whether some matrix is stored as int8."""
        return len(self.names) < len(self._tensors.keys())

    def read(self, name: str) -> Array:
        """A tensor; float32 where it is stored as int8 or bf16."""
        if self._header[name]["dtype"] == "BF16":
            return self._read_bf16(name)
        values: Array = self._tensors.get_tensor(name)
        if values.dtype == np.int8:
            return dequantize(values, self._tensors.get_tensor(name + SCALE))
        return values

    def _read_bf16(self, name: str) -> Array:
        """NumPy has no such type: the upper half of a float32."""
        first, last = self._header[name]["data_offsets"]
        with self._path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            halves = np.fromfile(file, dtype="<u2", count=(last - first) // 2, offset=start + first - 8)
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(self._header[name]["shape"])


def quantize(matrix: Array) -> tuple[Array, Array]:
    """A matrix [N, K] as int8 in -127..127, and a scale for each row [N], its largest magnitude over 127.

    Symmetric and without calibration: nothing but the weights is looked at (per channel, Wu et al., "Integer
    quantization for deep learning inference", 2020, section 3).
    """
    scale = (np.abs(matrix).max(axis=1) / np.float32(127)).astype(np.float32)
    # [N, K] / [N, 1]; a row of zeros stays one
    units = matrix / np.where(scale > 0, scale, 1)[:, None]
    return np.rint(units).astype(np.int8), scale


def dequantize(units: Array, scale: Array) -> Array:
    """The float32 matrix that int8 units [N, K] and scales [N] stand for."""
    # [N, K] * [N, 1] -> [N, K]
    product: Array = units.astype(np.float32) * scale[:, None]
    return product


@contextmanager
def open_weights(directory: Path) -> Iterator[WeightsFile]:
    """Open the weights of a model directory, after checking the digest in their header.

    Raises:
        ModelError: when the file is missing, or not as it was written.
    """
    path = directory / WEIGHTS_FILE
    try:
        header = _checked_header(path)
        with safetensors.safe_open(path, framework="numpy") as tensors:
            yield WeightsFile(path, header, tensors)
    except UserError:
        raise  # it says itself what is wrong, and is a ValueError too
    except FileNotFoundError:
        raise ModelError(f"{directory} has no {WEIGHTS_FILE}: training wrote no model yet") from None
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise ModelError(f"{path} is damaged: {error}; copy it anew, or train again") from error


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


def _checked_header(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size:
            raise ValueError("it is cut off in its header")
        header: dict[str, Any] = json.loads(file.read(length))
        expected = header.get("__metadata__", {}).get("sha256")
        if expected is not None and hashlib.file_digest(file, "sha256").hexdigest() != expected:
            raise ValueError("its bytes are not those that were written")
    return header
