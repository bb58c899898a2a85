"""Arrays in .npy files, memory-mapped; those of one dimension are also written piece by piece."""

import io
import math
import mmap
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dragoman.files import open_regular


class FlatArrayWriter:
    """Context manager that writes a .npy file without holding the array in memory.

    Args:
        path: the new file.
        dtype: type of the numbers.

    Attributes:
        count: how many numbers have been written.
    """

    def __init__(self, path: Path, dtype: npt.DTypeLike) -> None:
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._file = path.open("xb")
        self._file.write(_header(self._dtype, 0))
        self.count = 0

    def write(self, values: npt.NDArray[np.integer[Any]]) -> None:
        """Append numbers, which must be in the range of the type."""
        self._file.write(values.astype(self._dtype, copy=False).tobytes())
        self.count += len(values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._file:
            if error is None:
                # The header has the same length for any number of values.
                self._file.seek(0)
                self._file.write(_header(self._dtype, self.count))


def map_flat_array(path: Path, dtypes: tuple[type[np.integer[Any]], ...]) -> tuple[npt.NDArray[Any], mmap.mmap]:
    """Return the array in a .npy file, and the memory map that contains it; the numbers are not read.

    Args:
        path: the file.
        dtypes: types that are accepted.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is not a one-dimensional array of one of the types, or is truncated.
    """
    return map_array(path, dtypes, dimensions=1)


def map_array(
    path: Path, dtypes: tuple[type[np.integer[Any]], ...], *, dimensions: int
) -> tuple[npt.NDArray[Any], mmap.mmap]:
    """Return the array in a .npy file, and the memory map that contains it; the numbers are not read.

    Args:
        path: the file.
        dtypes: types that are accepted.
        dimensions: number of dimensions of the array.

    Raises:
        OSError: if the file cannot be opened.
        ValueError: if it is an array of another type, another order or another number of dimensions, or is truncated.
    """
    with open_regular(path) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{path.name} has an unknown version of the .npy format")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(file)
        known = dtype in [np.dtype(kind).newbyteorder("<") for kind in dtypes]
        if len(shape) != dimensions or not known or (by_columns and dimensions > 1) or min(shape) < 0:
            raise ValueError(f"{path.name} contains an array of another type")
        start = file.tell()
        count = math.prod(shape)
        if start + count * dtype.itemsize != os.fstat(file.fileno()).st_size:
            raise ValueError(f"{path.name} is truncated")
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.frombuffer(pages, dtype, count, start).reshape(shape), pages


def _header(dtype: np.dtype[Any], count: int) -> bytes:
    header = io.BytesIO()
    description = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()
