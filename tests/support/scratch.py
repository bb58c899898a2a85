"""Virtual environments into which tests install dragoman."""

import os
import subprocess
import sysconfig
import venv
from pathlib import Path


class ScratchEnvironment:
    """A virtual environment that can import the packages of the current one, except dragoman.

    Its pip uses no package index, and builds with the setuptools and pybind11 of the current environment.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        self.python = folder / "venv/bin/python"
        [packages] = (folder / "venv/lib").glob("python*/site-packages")
        # Python does not process .pth files, such as that of an editable dragoman, in a directory named in a .pth file.
        (packages / "installed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        pip = {
            "PIP_CACHE_DIR": str(folder / "cache"),
            "PIP_NO_BUILD_ISOLATION": "0",  # the value that means --no-build-isolation
            "PIP_NO_INDEX": "1",
        }
        self.environment = inherited | pip

    def run(self, *command: str, **environment: str) -> str:
        """Run a command, which must succeed; return its standard output."""
        process = subprocess.run(
            command, env=self.environment | environment, cwd=self.python.parent, capture_output=True, text=True
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout
