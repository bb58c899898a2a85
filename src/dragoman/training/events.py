"""The log of a run, log.jsonl: one event per line."""

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
    """Writer of log.jsonl, one JSON object per line; each event is written immediately.

    An incomplete last line, left by a crash, is removed when the log is opened again.

    Args:
        path: the log.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            self._rewrite(_complete_lines(path.read_bytes()))

    def append(self, event: Mapping[str, object]) -> None:
        """Append one event; NaN and infinity, which JSON lacks, become null."""
        plain = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in event.items()}
        line = json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n"
        with self.path.open("ab") as file:
            file.write(line.encode())

    def truncate_after(self, step: int) -> None:
        """Remove the events that a run resumed from `step` will log again.

        These are the events of later steps, and the validation of the average of the last checkpoints, which is the
        last event of a run.
        """
        if self.path.exists():
            lines = _complete_lines(self.path.read_bytes())
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
    """Read log.jsonl, without an incomplete last line that a crash left.

    Raises:
        StorageError: if the file cannot be read, or if another line is not an event; the message names file and line.
    """
    try:
        data = log.read_bytes()
    except OSError as error:
        raise StorageError(f"cannot read {log}: {error.strerror}") from error
    return [_parse(line, log, number) for number, line in enumerate(_complete_lines(data), start=1)]


def number_of(event: Event, key: str) -> float:
    """Return a number of an event; NaN if the event lacks it."""
    value = event.get(key)
    return float(value) if isinstance(value, int | float) else math.nan


def step_of(event: Event) -> float:
    """Return the step of an event; 0 if the event has none."""
    step = number_of(event, "step")
    return 0.0 if math.isnan(step) else step


def _complete_lines(data: bytes) -> list[bytes]:
    """Return the lines, without a last line that has neither an end of line nor a complete JSON value."""
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
        raise StorageError(f'{path}:{number}: expected an event (a JSON object with the key "event"); remove the line')
    for key, value in event.items():
        if key not in _NUMBERS and key not in METRICS:
            continue
        is_number = value is None or (isinstance(value, int | float) and not isinstance(value, bool))
        if not is_number or (isinstance(value, int) and abs(value) > sys.float_info.max):
            raise StorageError(f"{path}:{number}: expected a number for {key}, found {value!r}; remove the line")
    return event
