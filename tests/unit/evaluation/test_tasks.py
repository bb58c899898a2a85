"""Evaluation tasks: the sources, references and rows of a test set, and the metrics of each task."""

import subprocess
import sys

import pytest

from dragoman.errors import SettingsError
from dragoman.evaluation.error_rates import SymbolMetrics
from dragoman.evaluation.metrics import TranslationMetrics
from dragoman.evaluation.rouge import SummaryMetrics
from dragoman.evaluation.task import Task, TaskOptions
from dragoman.evaluation.tasks import TASKS, task_named

PAIRS = [("a b", "x y"), ("c", "z"), ("a b", "x"), ("c", "z")]


def test_each_line_of_a_translation_task_is_a_source() -> None:
    task = task_named("translation", PAIRS, TaskOptions())
    assert list(task.sources) == ["a b", "c", "a b", "c"]
    assert [list(group) for group in task.references] == [["x y"], ["z"], ["x"], ["z"]]
    assert list(task.rows) == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["symbols", "summary"])
def test_lines_with_equal_sources_give_the_references_of_one_source(name: str) -> None:
    task = task_named(name, PAIRS, TaskOptions())
    assert list(task.sources) == ["a b", "c"]
    assert [list(group) for group in task.references] == [["x y", "x"], ["z"]]
    assert list(task.rows) == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "metrics"), [("translation", TranslationMetrics), ("symbols", SymbolMetrics), ("summary", SummaryMetrics)]
)
def test_every_task_evaluates_and_compares(name: str, metrics: type) -> None:
    task = task_named(name, PAIRS, TaskOptions(language="en"))
    outputs = ["x y" if source == "a b" else "z" for source in task.sources]
    report = task.evaluate(outputs, "one")
    assert type(report) is metrics
    assert all(len(row) == 3 for row in report.rows())
    assert report.to_json()["signatures"]
    significance = task.compare(["nothing"] * len(outputs), "one", outputs)
    assert {result.system for result in significance.results} == {"(baseline)", "one"}
    assert significance.sentences == len(task.sources)


def test_options_are_used_for_the_metrics() -> None:
    symbols = task_named("symbols", PAIRS, TaskOptions(length_bounds=(1, 5))).evaluate(["x y", "z"], "one")
    assert isinstance(symbols, SymbolMetrics)
    assert [(group.shortest, group.longest) for group in symbols.by_length] == [(1, 1), (2, 2)]
    japanese = task_named("translation", [("a", "東京都")], TaskOptions(language="ja")).evaluate(["東京都"], "one")
    assert isinstance(japanese, TranslationMetrics)
    assert "tok:char" in japanese.signatures["bleu"]


def test_invalid_names_and_options_are_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="unknown metric 'luck': choose one of translation, symbols, summary"):
        task_named("luck", PAIRS, TaskOptions())
    with pytest.raises(SettingsError, match="length bounds must be increasing"):
        task_named("symbols", PAIRS, TaskOptions(length_bounds=(3, 2)))


def test_the_table_contains_tasks_and_imports_no_slow_modules() -> None:
    assert all(issubclass(task, Task) for task in TASKS.values())
    script = "import sys, dragoman.evaluation.tasks; print(*('numpy' in sys.modules, 'sacrebleu' in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
