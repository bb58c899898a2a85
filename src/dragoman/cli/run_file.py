"""What the verbs that train share: a run file, with options over it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_run_file(config: Path | None, options: Mapping[str, object]) -> dict[str, Any]:
    """The settings in a run file, if there is one, with the `options` that were given (not None) over them.

    Raises:
        UserError: when the file cannot be read.
    """
    from dragoman.settings import load_toml

    settings: dict[str, Any] = load_toml(config) if config is not None else {}
    return settings | {name: value for name, value in options.items() if value is not None}
