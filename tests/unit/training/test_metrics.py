"""The table of metrics: one line is enough for the log, the display, the pictures and the choice of the best."""

import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.errors import SettingsError
from dragoman.run.validator import SCORES
from dragoman.training import metrics
from dragoman.training.config import TrainingConfig
from dragoman.training.curves import draw_curves
from dragoman.training.display import Display
from dragoman.training.events import EventLog, read_events
from dragoman.training.metrics import METRICS, Line, Metric, headline
from dragoman.training.validation import Sample, Validation

FOUND = Validation(
    loss=2.0, scores={"exact_match": 30.0, "chrf": 20.25, "bleu": 10.125}, samples=(Sample("one", "eins", "zwei"),)
)


def shown(validation: Validation, *, best: bool = False) -> list[str]:
    text = io.StringIO()
    display = Display(Console(file=text, width=120))
    display.validation(1234, 90.0, validation, best)
    return text.getvalue().splitlines()


@pytest.fixture
def edits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A metric of which less is better."""
    edits = Metric(
        name="edits", label="edits", format=".2f", higher_is_better=False, width=8, line=Line(color="#CC79A7")
    )
    monkeypatch.setitem(metrics.METRICS, "edits", edits)


def test_rows_and_sentences_are_as_they_were() -> None:
    assert shown(FOUND, best=True) == [
        "  update  minutes    loss perplexity   BLEU   chrF exact %",
        "   1,234      1.5   2.000       7.39   10.1   20.2    30.0  best so far",
        "         one  →  zwei",
    ]
    assert FOUND.sentence() == "BLEU 10.1, chrF 20.2, exact match 30.0 %, perplexity 7.39"
    assert list(FOUND.values()) == ["loss", "perplexity", "bleu", "chrf", "exact_match"]
    assert FOUND["perplexity"] == pytest.approx(math.e**2)
    assert headline(FOUND.values()).name == "bleu"
    assert headline(["loss", "perplexity"]).name == "loss"


def test_what_translation_measures_is_in_the_table() -> None:
    assert {"bleu", "chrf", "exact_match"} <= SCORES.keys() <= METRICS.keys()


def test_a_metric_outside_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="table of metrics"):
        Validation(loss=1.0, scores={"edits": 1.0})


def test_what_has_not_been_measured_has_no_value() -> None:
    with pytest.raises(KeyError):
        FOUND["accuracy"]


@pytest.mark.usefixtures("edits")
def test_a_new_metric_is_shown_logged_drawn_and_can_decide(tmp_path: Path) -> None:
    first = Validation(loss=1.0, scores={"edits": 12.5})
    second = Validation(loss=2.0, scores={"edits": 11.0})
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
    with pytest.raises(ValueError, match="edits is 'few', not a number"):
        read_events(log.path)


def test_an_unknown_choice_names_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"best_by must be one of 'loss', 'bleu', .*'exact_match'.*, not 'blue'"):
        TrainingConfig(steps=1, best_by="blue")
