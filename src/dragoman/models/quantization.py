"""Copies of model directories with int8 matrices, which are a quarter of the size."""

import os
from collections.abc import Mapping
from pathlib import Path

from dragoman.errors import ModelError, StorageError, reason_of
from dragoman.files import atomic_directory, explain_full_disk, read_verified
from dragoman.models.description import LISTED_FILES, load_description, save_description
from dragoman.models.weights import SCALE, WEIGHTS_FILE, Array, open_weights, quantize, write_weights

CARD = "README.md"
# Files that are copied as documentation, and the largest allowed size of each in bytes.
_DOCUMENTATION_FILES = {CARD: 1 << 24, "metrics.json": 1 << 24}
NOTE = (
    "\nThe matrices of this copy are int8 with a scale for each row (`dragoman quantize`); "
    "the metrics above are those of the original model.\n"
)


def quantize_model(directory: Path, out: Path) -> None:
    """Copy a model directory, converting each matrix to int8, including the embeddings.

    Vectors (norms, biases) are copied unchanged. Files that are not part of the model, such as the training run, are
    left out.

    Args:
        directory: the model directory.
        out: directory to create.

    Raises:
        ModelError: `directory` is not a model directory, its matrices are int8 already, or one of its files is a
            symbolic link.
        StorageError: `out` exists.

    Example:
        >>> from pathlib import Path
        >>> quantize_model(Path("models/mine"), Path("models/mine-int8"))
    """
    description = load_description(directory)
    if out.exists():
        raise StorageError(f"{out} exists already: use a new name")
    copied = _read_files(directory, LISTED_FILES, description.listed)
    copied |= _read_files(directory, _DOCUMENTATION_FILES, None)
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
    if CARD in copied:
        copied[CARD] += NOTE.encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    with explain_full_disk(out.parent), atomic_directory(out) as temporary:
        for file, data in copied.items():
            (temporary / file).write_bytes(data)
        save_description(temporary, description)
        write_weights(temporary / WEIGHTS_FILE, tensors)


def _read_files(directory: Path, largest: Mapping[str, int], digests: Mapping[str, str] | None) -> dict[str, bytes]:
    """Return the contents of those files that exist; symbolic links are rejected.

    A symbolic link in a directory from somebody else could copy any file of this machine.

    Args:
        directory: the model directory.
        largest: names of the files, and the largest allowed size of each in bytes.
        digests: expected SHA-256 of each file; None to read without a check.
    """
    contents = {}
    for name, size in largest.items():
        path = directory / name
        if os.path.lexists(path):
            try:
                contents[name] = read_verified(path, size, digests, follow=False)
            except (OSError, ValueError) as error:
                raise ModelError(
                    f"cannot copy {path}: {reason_of(error)}; copy the directory again, with files instead of links"
                ) from error
    return contents
