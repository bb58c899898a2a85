"""A model directory with int8 matrices: a quarter of the size."""

import shutil
from pathlib import Path

import numpy as np

from dragoman.errors import ModelError, StorageError
from dragoman.files import atomic_directory, full_disk_explained
from dragoman.models.description import load_description
from dragoman.models.weights import SCALE, WEIGHTS_FILE, Array, open_weights, quantize, write_weights

CARD = "README.md"
NOTE = (
    "\nThe matrices of this copy are int8 with a scale for each row (`dragoman quantize`); "
    "its figures are the original's.\n"
)


def quantize_model(directory: Path, out: Path) -> None:
    """Copy a model directory, each of its matrices as int8; the training run inside it is left out.

    Vectors (norms, biases) stay as they are. The embeddings, which are matrices, do not.

    Raises:
        ModelError: when `directory` is no model directory or is quantized already.
        StorageError: when `out` exists.
    """
    config = load_description(directory).model
    if out.exists():
        raise StorageError(f"{out} exists already: give a new name")
    with open_weights(directory, config) as weights:
        if weights.quantized:
            raise ModelError(f"{directory} is quantized already")
        tensors: dict[str, Array] = {}
        for name in weights.names:
            values = weights.read(name)
            if values.ndim == 2 and values.dtype == np.float32:
                tensors[name], tensors[name + SCALE] = quantize(values)
            else:
                tensors[name] = values
    out.parent.mkdir(parents=True, exist_ok=True)
    with full_disk_explained(out.parent), atomic_directory(out) as temporary:
        for file in directory.iterdir():
            if file.is_file() and file.name != WEIGHTS_FILE:
                shutil.copyfile(file, temporary / file.name)
        write_weights(temporary / WEIGHTS_FILE, tensors)
        if (temporary / CARD).exists():
            with (temporary / CARD).open("a", encoding="utf-8") as card:
                card.write(NOTE)
