"""A model directory with int8 matrices: a quarter of the size."""

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import ModelError, StorageError, reason_of
from dragoman.files import atomic_directory, full_disk_explained, read_listed
from dragoman.models.description import LISTED_FILES, load_description, save_description
from dragoman.models.weights import SCALE, WEIGHTS_FILE, Array, open_weights, quantize, write_weights

CARD = "README.md"
# What people read, and the most bytes that it may have.
_FOR_PEOPLE = {CARD: 1 << 24, "metrics.json": 1 << 24}
NOTE = (
    "\nThe matrices of this copy are int8 with a scale for each row (`dragoman quantize`); "
    "its figures are the original's.\n"
)


def quantize_model(directory: Path, out: Path) -> None:
    """Copy a model directory, each of its matrices as int8.

    Vectors (norms, biases) stay as they are. The embeddings, which are matrices, do not. Files that are not part of
    a model are left out, such as the training run.

    Raises:
        ModelError: when `directory` is no model directory or is quantized already, or a file of it is a link.
        StorageError: when `out` exists.
    """
    description = load_description(directory)
    if out.exists():
        raise StorageError(f"{out} exists already: give a new name")
    beside = _read_files(directory, LISTED_FILES, description.listed) | _read_files(directory, _FOR_PEOPLE, None)
    with open_weights(directory, description.model) as weights:
        if weights.quantized:
            raise ModelError(f"{directory} is quantized already")
        tensors: dict[str, Array] = {}
        for name in weights.names:
            values = weights.read(name)
            if values.ndim == 2:
                tensors[name], tensors[name + SCALE] = quantize(values)
            else:
                tensors[name] = values
    if CARD in beside:
        beside[CARD] += NOTE.encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    with full_disk_explained(out.parent), atomic_directory(out) as temporary:
        for file, data in beside.items():
            (temporary / file).write_bytes(data)
        save_description(temporary, description)
        write_weights(temporary / WEIGHTS_FILE, tensors)


def _read_files(directory: Path, largest: Mapping[str, int], digests: Mapping[str, str] | None) -> dict[str, bytes]:
    """Return those of these files that are there; a link could bring any file of this machine into the copy."""
    found = {}
    for name, most in largest.items():
        path = directory / name
        if os.path.lexists(path):
            try:
                found[name] = read_listed(path, most, digests, follow=False)
            except (OSError, ValueError) as error:
                raise ModelError(
                    f"{path} cannot be copied: {reason_of(error)}; copy the directory anew, links as files"
                ) from error
    return found
