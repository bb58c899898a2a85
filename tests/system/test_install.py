"""Installing: without a compiler and then with one; what is in the sdist and in the wheel; what the package shows."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.paths import REPOSITORY
from tests.support.scratch import ScratchEnvironment

# Nothing here asks a package index: setuptools and pybind11 are those of the tests.
pytest.importorskip("pybind11")
pytest.importorskip("setuptools", minversion="77")

SOURCES = (".hpp", ".cpp", ".c")


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of a clean checkout."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("sdist")
    names = ["setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "src"]
    for name in names:
        if (REPOSITORY / name).is_dir():
            ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
            shutil.copytree(REPOSITORY / name, checkout / name, ignore=ignored)
        else:
            shutil.copy(REPOSITORY / name, checkout / name)
    build("sdist", checkout, out)
    return next(out.iterdir())


def build(kind: str, source: Path, out: Path, **environment: str) -> None:
    program = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=os.environ | environment)


def engine_of(scratch: ScratchEnvironment) -> str:
    """The reason why there is no engine, or "" if there is one."""
    program = "from dragoman.translation.engine_selection import select_engine; print(select_engine().reason)"
    return scratch.run(str(scratch.python), "-c", program).strip()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_the_advice_after_an_installation_without_a_compiler(tmp_path: Path, sdist: Path) -> None:
    scratch = ScratchEnvironment(tmp_path)
    quick = tmp_path / "quick-c++"  # what counts is that it compiles
    quick.write_text('#!/bin/sh\nexec c++ "$@" -O0\n')
    quick.chmod(0o755)
    install = [str(scratch.python), "-m", "pip", "install", "--no-deps", f"dragoman @ {sdist.as_uri()}"]
    scratch.run(*install, CC="false", CXX="false")
    advice = engine_of(scratch)
    # What one would do first does nothing: pip takes the wheel that it has built.
    scratch.run(*install, CXX=str(quick))
    assert engine_of(scratch) == advice
    command = re.search(r"dragoman again: (.*)\)", advice)
    assert command, advice
    scratch.run("sh", "-c", command[1], CXX=str(quick))
    assert engine_of(scratch) == ""


def test_a_wheel_has_no_sources_of_the_engine_and_an_sdist_has_them(tmp_path: Path, sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    source = next(tmp_path.iterdir())
    native = {path.name for path in (REPOSITORY / "src/dragoman/native").iterdir()}
    sources = {name for name in native if name.endswith(SOURCES)}
    assert sources <= {path.name for path in (source / "src/dragoman/native").iterdir()}
    build("wheel", source, tmp_path, CC="false", CXX="false")
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    assert [name for name in names if name.endswith(SOURCES)] == []
    modules = {path.relative_to(REPOSITORY / "src").as_posix() for path in (REPOSITORY / "src").rglob("*.py")}
    assert modules <= set(names)
    static = REPOSITORY / "src/dragoman/attention_page/static"
    files = {f"dragoman/{path.relative_to(static.parent.parent)}" for path in static.rglob("*") if path.is_file()}
    assert files | {"dragoman/py.typed"} <= set(names)


def test_what_the_package_shows() -> None:
    program = "import dragoman; print(*dir(dragoman)); from dragoman import *; print(Translator.__name__, __version__)"
    shown, imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert shown.split() == ["Translator", "__version__", "train"]
    assert imported.split() == ["Translator", __import__("dragoman").__version__]
