"""Wheels like that from which the corpus "digits" is read, with random pictures."""

import gzip
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from dragoman.corpora import digits, download
from dragoman.corpora.download import Release


def table(count: int, side: int, largest: int) -> npt.NDArray[np.int64]:
    """Return random pictures, each followed by its digit; the values 0 and `largest` occur."""
    rows = np.random.default_rng(0).integers(largest + 1, size=(count, side * side + 1))
    rows[:, 0], rows[:, 1] = 0, largest
    rows[:, -1] = np.arange(count) % 10
    return rows


def csv(rows: npt.NDArray[np.int64]) -> bytes:
    return "".join(",".join(map(str, row)) + "\n" for row in rows.tolist()).encode()


def digits_wheel(path: Path, content: bytes, *, compress: bool = True) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("sklearn/datasets/data/digits.csv.gz", gzip.compress(content) if compress else content)
        archive.writestr("scikit_learn-9.1.dist-info/METADATA", "Name: scikit-learn\n")
        archive.writestr("scikit_learn-9.1.dist-info/licenses/COPYING", "BSD 3-Clause License")
        archive.writestr("sklearn/__init__.py", "raise SystemExit('imported')")
    return path


def published(wheel: Path) -> Release:
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    return replace(digits.RELEASE, file_name=wheel.name, sha256=sha256)


def publish_digits(wheel: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make a wheel of random digits that is obtained instead of a download; return the growing list of downloads."""
    digits_wheel(wheel, csv(table(count, 8, 16)))
    monkeypatch.setattr(digits, "_TABLE", replace(digits._TABLE, release=published(wheel)))
    requested: list[str] = []

    def obtain(release: Release, cache: Path) -> Path:
        requested.append(release.project)
        return wheel

    monkeypatch.setattr(download, "obtain", obtain)
    return requested
