"""Evaluation from Python: translation of a test set, metrics, and a significance test against another model."""

import json
import math
from collections.abc import Sequence

import pytest

from dragoman.evaluation.task import TaskOptions
from dragoman.evaluation.tasks import task_named
from dragoman.search.config import SearchConfig
from dragoman.translation.evaluation import Evaluation, evaluate
from dragoman.translation.translator import Translator
from tests.support.small_translator import random_models, random_translator, tokenizer

PAIRS = [
    ("the lamp is on", "the lamp is off"),
    ("open the window please", "the window is open"),
    ("the lamp is on", "light is on"),
    ("wait in the garden now", "wait now"),
]


def evaluate_random_model(metric: str = "translation", beam: int = 2) -> Evaluation:
    task = task_named(metric, PAIRS, TaskOptions())
    return evaluate(random_translator(), PAIRS, task, name="random", search=SearchConfig(beam=beam))


def test_outputs_are_those_of_the_translator_and_metrics_those_of_the_task() -> None:
    evaluation, translator = evaluate_random_model(), random_translator()
    expected = [
        each.text for each in translator.translate([source for source, _ in PAIRS], search=SearchConfig(beam=2))
    ]
    assert list(evaluation.outputs) == expected
    task = task_named("translation", PAIRS, TaskOptions())
    assert evaluation.metrics == task.evaluate(expected, "random")
    scores = translator.score(PAIRS)
    mean = sum(score.log_probability for score in scores) / sum(score.tokens for score in scores)
    assert evaluation.perplexity == pytest.approx(math.exp(-mean))
    assert (evaluation.significance, evaluation.alignment, evaluation.engine) == (None, None, translator.engine)


def test_a_source_with_several_references_is_translated_once() -> None:
    evaluation = evaluate_random_model("symbols")
    assert len(evaluation.outputs) == len(evaluation.task.sources) == 3
    assert evaluation.to_json()["sequences"] == 3


def test_progress_is_reported_and_outputs_are_passed_on_before_metrics_are_computed() -> None:
    events: list[object] = []

    class Recording(Translator):
        def score(self, pairs: Sequence[tuple[str, str]], *, length_penalty: float = 1.0) -> list:  # type: ignore[type-arg]
            events.append("score")
            return super().score(pairs, length_penalty=length_penalty)

    translator = Recording.from_parts(random_models(1), tokenizer(), max_source_tokens=20)
    evaluate(
        translator,
        PAIRS,
        task_named("translation", PAIRS, TaskOptions()),
        search=SearchConfig(beam=1),
        on_outputs=lambda outputs: events.append(len(outputs)),
        on_progress=lambda done, total: events.append((done, total)),
    )
    assert events == [*((done, 4) for done in range(5)), 4, "score"]


def test_significance_against_another_model_with_the_same_search() -> None:
    progress: list[tuple[int, int]] = []
    evaluation = evaluate_random_model(beam=1)
    same = evaluation.against(random_translator(), on_progress=lambda done, total: progress.append((done, total)))
    assert progress[-1] == (4, 4)
    assert same.significance is not None
    assert evaluation.significance is None
    assert {each.p_value for each in same.significance.results if each.p_value is not None} == {1.0}
    assert same.significance.results[1].system == "random"
    assert "against" in same.to_json()
    assert same.metrics == evaluation.metrics


def test_the_report_as_json_table_and_notes() -> None:
    evaluation = evaluate_random_model()
    report = json.loads(json.dumps(evaluation.to_json()))
    assert report["sentences"] == 4
    assert {"perplexity", "split", "truncated", "max_source_tokens", "engine"} <= report.keys()
    assert not {"token_statistics", "alignment", "against"} & report.keys()
    assert [line.split()[0] for line in evaluation.table().splitlines()] == ["BLEU", "chrF", "TER", "perplexity"]
    notes = list(evaluation.notes())
    assert len(notes) == (evaluation.split > 0) + (evaluation.truncated > 0)
    assert evaluation.truncated == 0 or f"{evaluation.truncated} of 4 outputs were ended" in notes[-1]


def test_sources_that_are_too_long_are_counted_and_noted() -> None:
    pairs = [("the lamp is on. " * 12, "the lamp"), PAIRS[0]]
    task = task_named("translation", pairs, TaskOptions())
    evaluation = evaluate(random_translator(), pairs, task, search=SearchConfig(beam=1))
    assert evaluation.split == 1
    assert "1 of 2 sources had more than 20 subwords" in next(evaluation.notes())


@pytest.mark.parametrize(("count", "rows"), [(0, []), (1, [0]), (2, [0, 2]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])])
def test_examples_are_evenly_spaced_over_the_test_set(count: int, rows: list[int]) -> None:
    evaluation = evaluate_random_model(beam=1)
    expected = [(PAIRS[i][0], [PAIRS[i][1]], evaluation.outputs[i]) for i in rows]
    assert evaluation.examples(count) == expected
