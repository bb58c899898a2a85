"""The log of a run and its learning curves: no duplicate or incomplete events, and invalid lines are reported."""

import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.training.curves import draw_curves
from dragoman.training.events import EventLog, read_events
from dragoman.training.sparkline import sparkline


def step_event(step: int, loss: float = 2.0) -> dict[str, object]:
    return {"event": "step", "step": step, "loss": loss, "learning_rate": 1e-4 * step, "elapsed": 0.5}


def validation_event(step: int, **values: float | None) -> dict[str, object]:
    return {"event": "validation", "step": step, "loss": 3.0, "bleu": 20.5, "chrf": 40.0, **values}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of steps 10 to 60 with validations at 30 and 60."""
    path = tmp_path / "log.jsonl"
    events = EventLog(path)
    events.append({"event": "start", "text": "ü \u2028 \n line"})
    for step in range(10, 70, 10):
        events.append(step_event(step))
        if step % 30 == 0:
            events.append(validation_event(step))
    return path


def steps_in(path: Path) -> list[object]:
    return [event.get("step") for event in read_events(path)]


def test_appended_events_are_read_back(log: Path) -> None:
    events = read_events(log)
    assert events[0] == {"event": "start", "text": "ü \u2028 \n line"}
    assert events[1] == step_event(10)
    assert steps_in(log) == [None, 10, 20, 30, 30, 40, 50, 60, 60]
    assert log.read_bytes().count(b"\n") == 9


def test_each_event_is_written_immediately(tmp_path: Path) -> None:
    events = EventLog(tmp_path / "log.jsonl")
    for step in (1, 2, 3):
        events.append(step_event(step))
        assert steps_in(tmp_path / "log.jsonl")[-1] == step


def test_values_that_are_not_finite_are_null(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for loss in (math.nan, math.inf):
        EventLog(path).append(step_event(5, loss))
    assert [event["loss"] for event in read_events(path)] == [None, None]
    assert b"NaN" not in path.read_bytes()


@pytest.mark.parametrize(("step", "left"), [(60, 9), (59, 7), (30, 5), (29, 3), (0, 1)])
def test_a_resumed_run_has_no_event_twice(log: Path, step: int, left: int) -> None:
    before = log.read_bytes().split(b"\n")
    events = EventLog(log)
    events.truncate_after(step)
    assert log.read_bytes().split(b"\n") == [*before[:left], b""]
    assert [path.name for path in log.parent.iterdir()] == ["log.jsonl"]
    events.append(step_event(step + 1))
    assert steps_in(log)[-1] == step + 1


def test_truncating_a_missing_log_does_nothing(tmp_path: Path) -> None:
    EventLog(tmp_path / "log.jsonl").truncate_after(5)
    assert not (tmp_path / "log.jsonl").exists()


def test_only_an_incomplete_last_line_is_removed(log: Path) -> None:
    data = log.read_bytes()
    whole = read_events(log)
    start = data.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(data)):
        log.write_bytes(data[:end])
        complete = end == len(data) - 1  # everything except the end of line
        assert read_events(log) == (whole if complete else whole[:-1])
        EventLog(log).append(step_event(70))
        assert read_events(log) == [*(whole if complete else whole[:-1]), step_event(70)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\x00\x00", "not JSON"),
        (b'{"event": "st\xff"}', "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b"[]", "expected an event"),
        (b"5", "expected an event"),
        (b'{"step": 5}', "expected an event"),
        (b'{"event": 5}', "expected an event"),
        (b'{"event": "step", "step": "5"}', "expected a number for step, found '5'"),
        (b'{"event": "step", "loss": true}', "expected a number for loss, found True"),
        (b'{"event": "step", "bleu": [1]}', "expected a number for bleu, found [1]"),
        (b'{"event": "step", "step": 1' + b"0" * 400 + b"}", "expected a number"),
    ],
)
def test_an_invalid_line_is_named_in_the_error(log: Path, line: bytes, message: str) -> None:
    lines = log.read_bytes().split(b"\n")
    log.write_bytes(b"\n".join([*lines[:3], line, *lines[3:]]))
    with pytest.raises(UserError, match=re.escape(f"{log}:4: ") + ".*" + re.escape(message)):
        read_events(log)
    with pytest.raises(UserError, match=re.escape(f"{log}:4: ")):
        EventLog(log).truncate_after(5)
    with pytest.raises(UserError, match=re.escape(f"{log}:4: ")):
        draw_curves(log, log.with_name("curves.png"))
    assert not log.with_name("curves.png").exists()
    # The last line too, if it has an end of line.
    log.write_bytes(line + b"\n")
    with pytest.raises(UserError, match=re.escape(f"{log}:1: ")):
        read_events(log)


def test_a_missing_log_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*log\.jsonl: No such file"):
        read_events(tmp_path / "log.jsonl")


def test_dos_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(json.dumps(step_event(1)).encode() + b"\r\n" + json.dumps(step_event(2)).encode() + b"\r\n")
    assert steps_in(path) == [1, 2]


# Learning curves


def png_size(data: bytes) -> tuple[int, int]:
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def test_the_picture_depends_only_on_the_log(log: Path) -> None:
    picture = log.with_name("curves.png")
    draw_curves(log, picture)
    first = picture.read_bytes()
    assert png_size(first) == (1800, 540)
    draw_curves(log, picture)
    assert picture.read_bytes() == first
    EventLog(log).append(validation_event(70, bleu=25.0))
    draw_curves(log, picture)
    assert picture.read_bytes() != first
    assert sorted(path.name for path in log.parent.iterdir()) == ["curves.png", "log.jsonl"]


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"event": "start"}],
        [step_event(1)],
        [step_event(1), step_event(2, math.nan), step_event(3)],
        [step_event(1, math.nan)],
        [validation_event(1)],
        [validation_event(1, bleu=None, chrf=None)],
        [validation_event(1, loss=math.inf), validation_event(2)],
        [{"event": "validation", "step": 1}],
        [{"event": "step", "loss": 1.0}],
        [step_event(1), validation_event(1), validation_event(1, bleu=21.0)],
    ],
)
def test_every_log_can_be_drawn(tmp_path: Path, events: list[dict[str, object]]) -> None:
    path = tmp_path / "log.jsonl"
    path.touch()
    for event in events:
        EventLog(path).append(event)
    draw_curves(path, tmp_path / "curves.png")
    assert png_size((tmp_path / "curves.png").read_bytes()) == (1800, 540)


# Sparklines


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], ""),
        ([5.0], "▁"),
        ([2.0, 2.0], "▁▁"),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], "▁▂▃▄▅▆▇█"),
        ([3.0, math.nan, 1.0, -math.inf], "█ ▁ "),
        ([math.nan], " "),
        ([-1.7e308, 0.0, 1.7e308], "▁▅█"),
    ],
)
def test_sparklines(values: list[float], line: str) -> None:
    assert sparkline(values) == line


@given(st.lists(st.floats()))
def test_a_sparkline_preserves_order_and_length(values: list[float]) -> None:
    line = sparkline(values)
    assert len(line) == len(values)
    finite = [(value, block) for value, block in zip(values, line, strict=True) if math.isfinite(value)]
    assert [block for _, block in sorted(finite)] == sorted(block for _, block in finite)
    if finite and max(finite)[0] > min(finite)[0] + 1e-300:
        assert (min(finite)[1], max(finite)[1]) == ("▁", "█")
