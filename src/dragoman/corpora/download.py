"""A published wheel, downloaded once by pip with its hash pinned, kept in a cache, never installed."""

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dragoman.corpora.source import OnProgress
from dragoman.errors import CorpusError, SettingsError, StorageError, UserError


@dataclass(frozen=True, kw_only=True)
class Release:
    """One wheel of one release. `size` in bytes; `python` is the version to ask pip for."""

    project: str
    version: str
    file_name: str
    sha256: str
    size: int
    python: str


def cache_directory() -> Path:
    """$XDG_CACHE_HOME/dragoman, or ~/.cache/dragoman."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG specification tells to ignore relative paths.
    if Path(base).is_absolute():
        return Path(base) / "dragoman"
    try:
        return Path.home() / ".cache" / "dragoman"
    except RuntimeError as error:
        raise SettingsError("no home directory for the cache; set XDG_CACHE_HOME") from error


def pip_download(release: Release, directory: Path) -> None:
    """Let pip download the wheel into `directory`, by the user's own pip settings.

    Raises CorpusError with pip's own words when it fails.
    """
    requirements = directory / "requirements.txt"
    requirements.write_text(f"{release.project}=={release.version} --hash=sha256:{release.sha256}\n", encoding="utf-8")
    # -P: a file named like a module, in the directory where we happen to be, is not imported.
    command = [sys.executable, "-P", "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--python-version", release.python, "--no-cache-dir"]
    command += ["--no-input", "--progress-bar", "off", "--disable-pip-version-check"]
    command += ["--dest", str(directory), "--requirement", str(requirements)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.decode("utf-8", "replace").strip().split("\n")
    if "No module named pip" in said[-1]:
        raise CorpusError(
            f"{release.project} {release.version} is downloaded by pip, which {sys.executable} "
            "lacks; install it (python -m ensurepip, or your system's python3-pip)"
        )
    errors = [line for line in said if line.startswith("ERROR:")] or said[-3:]
    raise CorpusError(
        f"pip could not download {release.project} {release.version} "
        f"({release.size / 1e6:.0f} MB, needed once): {'; '.join(errors)}"
    )


def obtain(release: Release, cache: Path, download: Callable[[Release, Path], None] = pip_download) -> Path:
    """The wheel in the cache, downloaded unless it is there with the right hash.

    A failure leaves nothing behind. Raises UserError when the download fails, what came has another
    hash, or the cache cannot be written.
    """
    wheel = cache / release.file_name
    if wheel.is_file() and file_sha256(wheel) == release.sha256:
        return wheel
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".download-") as temporary:
            try:
                download(release, Path(temporary))
            except UserError as error:
                raise CorpusError(
                    f"{error}; without a network, download that wheel elsewhere and put it at {wheel}"
                ) from error
            fresh = Path(temporary) / release.file_name
            if not fresh.is_file() or file_sha256(fresh) != release.sha256:
                raise CorpusError(
                    f"{release.file_name}: what was downloaded is not the file that was published "
                    f"(SHA-256 {release.sha256}); try again, or look at pip's index settings"
                )
            with fresh.open("rb") as file:
                os.fsync(file.fileno())
            fresh.replace(wheel)
    except OSError as error:
        raise StorageError(
            f"{cache}: the download cannot be kept here ({error.strerror}); make room or set XDG_CACHE_HOME"
        ) from error
    return wheel


def identity_of(release: Release, wheel: Path | None) -> dict[str, object]:
    """Name and SHA-256 of the wheel: of the one given, or the published one."""
    if wheel is None:
        return {"wheel": release.file_name, "sha256": release.sha256}
    return {"wheel": wheel.name, "sha256": file_sha256(wheel)}


def bring(release: Release, wheel: Path | None, on_progress: OnProgress) -> Path:
    """Return the wheel given, or else the published one, from the cache or the package index.

    Raises what `obtain` raises.
    """
    if wheel is not None:
        return wheel
    on_progress(f"Fetching {release.project} {release.version} ({release.size / 1e6:.0f} MB, once) ...")
    return obtain(release, cache_directory())


def file_sha256(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal; CorpusError when it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read ({error.strerror})") from error
