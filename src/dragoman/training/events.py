"""What a run logs as it goes: log.jsonl."""

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from dragoman.errors import StorageError
from dragoman.files import write_atomically
from dragoman.training.metrics import METRICS

Event = dict[str, object]

_NUMBERS = {"step", "learning_rate"}


class EventLog:
    """Appends events to log.jsonl, one JSON object a line, each on its way to the disk at once.

    A line that a crash cut short is dropped when the log is opened again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            self._rewrite(_whole_lines(path.read_bytes()))

    def append(self, event: Mapping[str, object]) -> None:
        """Add one event. JSON has no NaN and no infinity: they become null."""
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in event.items()}
        line = json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())

    def truncate_after(self, step: int) -> None:
        """Drop the events that a run will log again that goes on from `step`.

        Those beyond it, and the validation of the average of the last checkpoints, with which a run ends.
        """
        if self.path.exists():
            lines = _whole_lines(self.path.read_bytes())
            events = [_parse(line, self.path, number) for number, line in enumerate(lines, start=1)]
            self._rewrite(
                [
                    line
                    for line, event in zip(lines, events, strict=True)
                    if step_of(event) <= step and "average" not in event
                ]
            )

    def _rewrite(self, lines: Sequence[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        if data != self.path.read_bytes():
            write_atomically(self.path, data)


def read_events(log: Path) -> list[Event]:
    """Read log.jsonl. A last line that a crash cut short is left out.

    Raises StorageError with file and line when any other line is not an event.
    """
    try:
        data = log.read_bytes()
    except OSError as error:
        raise StorageError(f"{log}: cannot be read: {error.strerror}") from error
    return [_parse(line, log, number) for number, line in enumerate(_whole_lines(data), start=1)]


def number_of(event: Event, key: str) -> float:
    """One figure of an event; NaN where it has none."""
    value = event.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def step_of(event: Event) -> float:
    """The event's step; an event without one belongs to the beginning."""
    step = number_of(event, "step")
    return 0.0 if math.isnan(step) else step


def _whole_lines(data: bytes) -> list[bytes]:
    """The lines, without a last one that a crash cut: no line end, and no whole JSON object either."""
    *lines, last = data.split(b"\n")
    try:
        json.loads(last.decode())
    except (ValueError, RecursionError):
        return lines
    return [*lines, last]


def _parse(line: bytes, path: Path, number: int) -> Event:
    try:
        event = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}:{number}: not JSON ({error}); remove the line") from error
    if not isinstance(event, dict) or not isinstance(event.get("event"), str):
        raise StorageError(f'{path}:{number}: not an event, a JSON object with "event"; remove the line')
    for key, value in event.items():
        if key not in _NUMBERS and key not in METRICS:
            continue
        fits = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        if not fits or (isinstance(value, int) and abs(value) > sys.float_info.max):
            raise StorageError(f"{path}:{number}: {key} is {value!r}, not a number; remove the line")
    return event
