"""Installing as users do: a wheel, an sdist without and with a compiler; the files of both; the exported names."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.installed import STATIC, use
from tests.support.paths import REPOSITORY
from tests.support.scratch import ScratchEnvironment

# Nothing here uses a package index: setuptools and pybind11 are those of the tests.
pytest.importorskip("pybind11")
pytest.importorskip("setuptools", minversion="77")

SOURCES = (".hpp", ".cpp", ".c")
# Files of the repository that the sdist contains beside src/.
ROOT = ["setup.py", "pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md"]
# Files that setuptools generates.
GENERATED = {"PKG-INFO", "setup.cfg"}
# What lies in a checkout that was used, and is not part of a release.
STRAY = [
    "src/dragoman/native/_avx2.so",
    "src/dragoman/native/__pycache__/backend.cpython-311.pyc",
    "src/dragoman/native/notes.txt",
    "src/dragoman/attention_page/static/page.html~",
    "corpora/home-assistant/en-de/train.tsv",
    "models/en-de/model.safetensors",
    "dist/dragoman.whl",
    "build/lib/dragoman/old.py",
    "tests/test_stray.py",
]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of a checkout that was used."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("sdist")
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(REPOSITORY / "src", checkout / "src", ignore=ignored)
    for name in ROOT:
        shutil.copy(REPOSITORY / name, checkout / name)
    for name in STRAY:
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("stray")
    build("sdist", checkout, out)
    return next(out.iterdir())


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory, sdist: Path) -> Path:
    """The folder that the source distribution contains."""
    folder = tmp_path_factory.mktemp("source")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    [source] = folder.iterdir()
    return source


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, source: Path) -> Path:
    """The wheel that the source distribution gives without a compiler."""
    out = tmp_path_factory.mktemp("wheel")
    copy = shutil.copytree(source, tmp_path_factory.mktemp("copy") / "source")
    build("wheel", copy, out, CC="false", CXX="false")
    return next(out.iterdir())


def build(kind: str, source: Path, out: Path, **environment: str) -> None:
    program = f"from setuptools import build_meta; build_meta.build_{kind}({str(out)!r})"
    command = [sys.executable, "-W", "ignore", "-c", program]
    subprocess.run(command, cwd=source, check=True, capture_output=True, env=os.environ | environment)


def files_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def checked_in(*suffixes: str) -> set[str]:
    """Files below the checkout's src/ with these suffixes."""
    return {name for name in files_below(REPOSITORY / "src") if name.endswith(suffixes)}


def static_files() -> set[str]:
    return {f"dragoman/{page}/static/{name}" for page, static in STATIC.items() for name in files_below(static)}


def reason_for_torch(scratch: ScratchEnvironment) -> str:
    """The reason why the native engine is not available, or "" if it is."""
    program = "from dragoman.native.engine_selection import select_engine; print(select_engine().reason)"
    return scratch.run(str(scratch.python), "-c", program).strip()


@pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")
def test_an_sdist_without_a_compiler_and_then_with_one(tmp_path: Path, sdist: Path) -> None:
    """Without one, doctor prints the command that compiles the native engine later."""
    scratch = ScratchEnvironment(tmp_path)
    quick = tmp_path / "quick-c++"  # the speed of the result does not matter here
    quick.write_text('#!/bin/sh\nexec c++ "$@" -O0\n')
    quick.chmod(0o755)
    scratch.install(f"dragoman @ {sdist.as_uri()}", **scratch.no_compiler)
    advice = reason_for_torch(scratch)
    assert advice in use(scratch, "torch")
    # Installing again has no effect: pip uses the wheel that it built before.
    scratch.install(f"dragoman @ {sdist.as_uri()}", CXX=str(quick))
    assert reason_for_torch(scratch) == advice
    command = re.search(r"dragoman again: (.*)", advice)
    assert command, advice
    scratch.run("sh", "-c", command[1], CXX=str(quick))
    assert reason_for_torch(scratch) == ""
    use(scratch, "native")


def test_a_wheel_in_a_fresh_environment(tmp_path: Path, wheel: Path) -> None:
    scratch = ScratchEnvironment(tmp_path)
    scratch.install(str(wheel))
    use(scratch, "torch")


def test_the_files_of_an_sdist(source: Path) -> None:
    names = {name for name in files_below(source) if not name.startswith("src/dragoman.egg-info/")}
    package = checked_in(".py", *SOURCES) | static_files() | {"dragoman/py.typed"}
    assert names == {f"src/{name}" for name in package} | set(ROOT) | GENERATED


def test_the_files_of_a_wheel(wheel: Path) -> None:
    """Modules, the page's static files and licences; no sources of the native engine."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    metadata = {name.split("/", 1)[1] for name in names if ".dist-info/" in name}
    assert {name for name in names if ".dist-info/" not in name} == (
        checked_in(".py") | static_files() | {"dragoman/py.typed"}
    )
    licences = {"licenses/LICENSE", "licenses/src/dragoman/attention_page/static/vendor/d3.LICENSE"}
    assert metadata == {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "top_level.txt"} | licences


def test_the_names_that_the_package_exports() -> None:
    program = "import dragoman; print(*dir(dragoman)); from dragoman import *; print(Translator.__name__, __version__)"
    shown, imported = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    assert shown.split() == ["Embedder", "Generator", "Labeller", "Translator", "__version__", "train"]
    assert imported.split() == ["Translator", __import__("dragoman").__version__]
