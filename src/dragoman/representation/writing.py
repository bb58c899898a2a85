"""Files of vectors: .npy, .npz and .parquet."""

from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dragoman.errors import SettingsError
from dragoman.files import write_atomically
from dragoman.representation.embedder import Embeddings

SUFFIXES = (".npy", ".npz", ".parquet")


def check_suffix(path: Path) -> None:
    """Raise SettingsError if `path` does not end with one of the `SUFFIXES`."""
    if path.suffix not in SUFFIXES:
        raise SettingsError(f"{path}: unknown kind of file {path.suffix!r}; use {', '.join(SUFFIXES)}")


def write_embeddings(path: Path, embeddings: Embeddings) -> None:
    """Write vectors to a file in the format of its suffix.

    Args:
        path: the file, which is replaced atomically. A .npy file contains the vectors [N, D] only; .npz and .parquet
            contain `text` (index of the text), `label` (the token, word or text) and `vector`.
        embeddings: the vectors.

    Raises:
        SettingsError: the suffix is unknown.

    Example:
        >>> from dragoman import Embedder
        >>> embeddings = Embedder.load("models/mine").embed(["Turn off the light."])
        >>> write_embeddings(Path("light.npy"), embeddings)
        >>> np.load("light.npy").shape == embeddings.vectors.shape
        True
    """
    check_suffix(path)
    file = BytesIO()
    if path.suffix == ".npy":
        np.save(file, embeddings.vectors)
    elif path.suffix == ".npz":
        np.savez(file, text=embeddings.texts, label=np.array(embeddings.labels), vector=embeddings.vectors)
    else:
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(embeddings.vectors.ravel()), embeddings.vectors.shape[1])
        table = pa.table({"text": embeddings.texts, "label": list(embeddings.labels), "vector": vectors})
        pq.write_table(table, file)
    write_atomically(path, file.getvalue())
