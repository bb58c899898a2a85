"""The table of metrics: one line adds a metric to the log, the display, the curves and the selection of models."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import SettingsError
from dragoman.run.validator import METRIC_FUNCTIONS
from dragoman.training import metrics
from dragoman.training.config import TrainingConfig
from dragoman.training.curves import draw_curves
from dragoman.training.display import Display
from dragoman.training.events import EventLog, read_events
from dragoman.training.metrics import METRICS, CurveStyle, Metric, headline_metric
from dragoman.training.validation import Sample, Validation

VALIDATION = Validation(
    loss=2.0, metrics={"exact_match": 30.0, "chrf": 20.25, "bleu": 10.125}, samples=(Sample("one", "eins", "zwei"),)
)


def shown(validation: Validation, *, best: bool = False) -> list[str]:
    text = io.StringIO()
    display = Display(Console(file=text, width=120), "target tokens")
    display.on_validation(1234, 90.0, validation, best)
    return text.getvalue().splitlines()


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An additional metric, for which lower is better."""
    edits = Metric(
        name="edits", label="edits", format=".2f", higher_is_better=False, width=8, curve=CurveStyle(color="#CC79A7")
    )
    monkeypatch.setitem(metrics.METRICS, "edits", edits)


def test_rows_and_sentences() -> None:
    assert shown(VALIDATION, best=True) == [
        "  update  minutes    loss perplexity   BLEU   chrF exact %",
        "   1,234      1.5   2.000       7.39   10.1   20.2    30.0  best so far",
        "         one  →  zwei",
    ]
    assert VALIDATION.sentence() == "BLEU 10.1, chrF 20.2, exact match 30.0 %, perplexity 7.39"
    assert list(VALIDATION.values()) == ["loss", "perplexity", "bleu", "chrf", "exact_match"]
    assert VALIDATION["perplexity"] == pytest.approx(math.e**2)
    assert headline_metric(VALIDATION.values()).name == "bleu"
    assert headline_metric(["loss", "perplexity"]).name == "loss"


def test_all_metrics_of_translation_are_in_the_table() -> None:
    assert {"bleu", "chrf", "exact_match"} <= METRIC_FUNCTIONS.keys() <= METRICS.keys()


def test_a_metric_outside_the_table_is_rejected() -> None:
    with pytest.raises(AssertionError, match="table of metrics"):
        Validation(loss=1.0, metrics={"edits": 1.0})


def test_a_metric_that_was_not_measured_has_no_value() -> None:
    with pytest.raises(KeyError):
        VALIDATION["accuracy"]


@pytest.mark.usefixtures("edits")
def test_a_new_metric_is_shown_logged_drawn_and_can_select_the_best(tmp_path: Path) -> None:
    first = Validation(loss=1.0, metrics={"edits": 12.5})
    second = Validation(loss=2.0, metrics={"edits": 11.0})
    assert shown(first)[0].endswith(" perplexity    edits")
    assert shown(first)[1].endswith("       2.72    12.50")
    assert TrainingConfig(steps=1, best_by="edits").best_by == "edits"
    assert second.better_than(first, "edits")
    assert not first.better_than(second, "edits")
    assert first.better_than(second, "loss")
    assert Validation.from_json(json.loads(json.dumps(first.to_json()))) == first

    log = EventLog(tmp_path / "log.jsonl")
    picture = tmp_path / "curves.png"
    log.append({"event": "validation", "step": 1, **first.values()})
    assert read_events(log.path)[0]["edits"] == 12.5
    draw_curves(log.path, picture)
    with_first = picture.read_bytes()
    log.append({"event": "validation", "step": 2, **first.values(), "edits": 3.0})
    draw_curves(log.path, picture)
    assert picture.read_bytes() != with_first
    log.append({"event": "validation", "step": 3, "edits": "few"})
    with pytest.raises(ValueError, match="expected a number for edits, found 'few'"):
        read_events(log.path)


def test_the_error_for_an_unknown_metric_lists_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"best_by must be one of 'loss', .*'bleu', .*'exact_match'.*, not 'blue'"):
        TrainingConfig(steps=1, best_by="blue")
