"""What `train` says at its end: made from the table of metrics and the log."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dragoman.run.summary import closing
from dragoman.training.events import EventLog
from dragoman.training.progress import Outcome
from dragoman.training.validation import Validation

BEST = Validation(loss=2.0, scores={"bleu": 21.04, "chrf": 40.0, "exact_match": 12.5})
OUTCOME = Outcome(steps=1200, best=BEST, best_step=800, seconds=150.0, stopped_early=False)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    log = EventLog(tmp_path / "run" / "log.jsonl")
    log.append({"event": "step", "step": 10, "loss": 5.0})
    for step, bleu in ((400, 10.0), (800, 21.04), (1200, math.nan)):
        log.append(
            {"event": "validation", "step": step, **replace(BEST, scores={**BEST.scores, "bleu": bleu}).values()}
        )
    return tmp_path


def test_the_end_of_a_run_is_told_word_for_word(out: Path) -> None:
    assert closing(OUTCOME, out) == (
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
        ({"stopped_early": True}, "trained 1,200 updates in 2.5 minutes, stopped early: no better for a while"),
        ({"skipped": 2}, "trained 1,200 updates in 2.5 minutes; 2 updates not applied, as they were not finite"),
        (
            {"skipped": 3, "rollbacks": 1},
            "trained 1,200 updates in 2.5 minutes; 3 updates not applied, as they were not finite, "
            "1 returns to a checkpoint",
        ),
    ],
)
def test_what_went_wrong_is_told(out: Path, changes: dict[str, int], line: str) -> None:
    assert closing(replace(OUTCOME, **changes), out).splitlines()[0] == line  # type: ignore[arg-type]


def test_without_a_score_the_loss_is_drawn(out: Path) -> None:
    told = closing(replace(OUTCOME, best=Validation(loss=1.0)), out)
    assert "validation perplexity 2.72\n" in told
    assert "curves.png   loss ▁▁▁\n" in told
