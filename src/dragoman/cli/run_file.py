"""Run files of the verbs that train."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_run_file(config: Path | None, options: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings of the run file (none if it is None), overridden by the options that are not None.

    Raises:
        UserError: when the file cannot be read.
    """
    from dragoman.settings import load_toml

    settings: dict[str, Any] = load_toml(config) if config is not None else {}
    return settings | {name: value for name, value in options.items() if value is not None}
