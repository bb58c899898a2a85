"""The summary at the end of `dragoman train`."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.run.summary import end_summary
from dragoman.run.tasks.table import task_named
from dragoman.training.events import EventLog
from dragoman.training.progress import TrainingResult
from dragoman.training.validation import Validation

TASK = task_named("translation")
BEST = Validation(loss=2.0, metrics={"bleu": 21.04, "chrf": 40.0, "exact_match": 12.5})
RESULT = TrainingResult(steps=1200, best=BEST, best_step=800, seconds=150.0, stopped_early=False)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    log = EventLog(tmp_path / "run" / "log.jsonl")
    log.append({"event": "step", "step": 10, "loss": 5.0})
    for step, bleu in ((400, 10.0), (800, 21.04), (1200, math.nan)):
        log.append(
            {"event": "validation", "step": step, **replace(BEST, metrics={**BEST.metrics, "bleu": bleu}).values()}
        )
    return tmp_path


def test_the_summary_word_for_word(out: Path) -> None:
    assert end_summary(RESULT, out, TASK) == (
        "trained 1,200 updates in 2.5 minutes\n"
        "best at update 800: validation BLEU 21.0, chrF 40.0, exact match 12.5 %, perplexity 7.39\n"
        f"model:  {out}\n"
        f"curves: {out}/run/curves.png   BLEU ▁█ \n"
        f"next:   dragoman translate {out} FILE\n"
        f"        dragoman evaluate {out} TEST.tsv --examples 10"
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"stopped_early": True},
            "trained 1,200 updates in 2.5 minutes; stopped early, as validations no longer improved",
        ),
        (
            {"skipped": 2},
            "trained 1,200 updates in 2.5 minutes; updates not applied because they were not finite: 2",
        ),
        (
            {"skipped": 3, "rollbacks": 1},
            "trained 1,200 updates in 2.5 minutes; updates not applied because they were not finite: 3; "
            "rollbacks to a checkpoint: 1",
        ),
    ],
)
def test_problems_are_in_the_first_line(out: Path, changes: dict[str, int], line: str) -> None:
    assert end_summary(replace(RESULT, **changes), out, TASK).splitlines()[0] == line  # type: ignore[arg-type]


def test_the_sparkline_shows_the_loss_if_there_is_no_other_metric(out: Path) -> None:
    summary = end_summary(replace(RESULT, best=Validation(loss=1.0)), out, TASK)
    assert "validation perplexity 2.72\n" in summary
    assert "curves.png   loss ▁▁▁\n" in summary
