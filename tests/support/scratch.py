"""Virtual environments into which tests install dragoman."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path


class ScratchEnvironment:
    """A new virtual environment that can import the packages of the current one, except dragoman.

    pip uses no package index, and builds with the setuptools and pybind11 of the current environment. Commands run
    outside the checkout, in `folder/work`.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.folder = folder / "work"
        self.folder.mkdir()
        self.binaries = folder / "venv/bin"
        self.python = self.binaries / "python"
        [packages] = (folder / "venv/lib").glob("python*/site-packages")
        # Python does not process .pth files, such as that of an editable dragoman, in a directory named in a .pth file.
        (packages / "installed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pip = {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # the value that means --no-build-isolation
            "PIP_NO_INDEX": "1",
        }
        self.environment = inherited | pip
        # With this PATH, the compiler's usual names are not found.
        (folder / "empty").mkdir()
        self.no_compiler = {"PATH": str(folder / "empty"), "CC": "cc", "CXX": "c++"}

    def install(self, *requirements: str, **environment: str) -> None:
        """Install packages without their dependencies."""
        self.run(str(self.python), "-m", "pip", "install", "--quiet", "--no-deps", *requirements, **environment)

    def run(self, *command: str, **environment: str) -> str:
        """Return what a command prints on standard output."""
        done = subprocess.run(
            command, env=self.environment | environment, cwd=self.folder, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout
