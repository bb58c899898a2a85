"""The command that compiles the native engine names the source from which dragoman was installed."""

import importlib.metadata
import json
from typing import Any

import pytest

from dragoman import native
from dragoman.native.engine_selection import select_engine

COMMAND = "-m pip install --no-cache-dir --force-reinstall --no-deps"


class Recorded:
    """An installed distribution with a given direct_url.json."""

    def __init__(self, origin: dict[str, Any] | None) -> None:
        self.origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.origin is None else json.dumps(self.origin)


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        (None, ", followed by what you named when you installed it"),
        ({"url": "file:///a/dragoman-0.1.0.tar.gz", "archive_info": {}}, " file:///a/dragoman-0.1.0.tar.gz"),
        ({"url": "file:///a", "dir_info": {"editable": True}}, " --editable file:///a"),
        ({"url": "file:///a;b", "dir_info": {}}, " 'file:///a;b'"),
        ({"url": "https://host/a.git", "vcs_info": {"vcs": "git", "commit_id": "12"}}, " git+https://host/a.git@12"),
    ],
)
def test_the_command(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, source: str) -> None:
    monkeypatch.setattr(native, "builds", list)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: Recorded(origin))
    assert select_engine().reason.endswith(f"{COMMAND}{source}")


def test_without_an_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(native, "builds", list)
    monkeypatch.setattr(importlib.metadata, "distribution", not_installed)
    assert "setup.py build_ext --inplace" in select_engine().reason
