"""Virtual environments to install dragoman into."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path


class ScratchEnvironment:
    """A virtual environment of its own, which sees the packages of this one but not its dragoman.

    pip asks no package index and builds with the setuptools and pybind11 that are installed here.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv/bin/python"
        [packages] = (folder / "venv/lib").glob("python*/site-packages")
        # A path that a .pth file names is not searched for .pth files, such as that of an editable dragoman.
        (packages / "installed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pip = {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "PIP_NO_BUILD_ISOLATION": "0",  # which means --no-build-isolation
            "PIP_NO_INDEX": "1",
        }
        self.environment = plain | pip

    def run(self, *command: str, **environment: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            command, env=self.environment | environment, cwd=self.python.parent, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
