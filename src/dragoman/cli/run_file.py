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


def with_minutes(settings: dict[str, Any], minutes: float | None) -> dict[str, Any]:
    """Return the settings with a time in place of a number of updates; unchanged without one."""
    training = settings.get("training", {})
    # A value that is not a table is reported when the settings are read.
    if minutes is None or not isinstance(training, dict):
        return settings
    others = {key: value for key, value in training.items() if key != "steps"}
    return {**settings, "training": {**others, "minutes": minutes}}
