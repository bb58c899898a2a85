"""ROUGE and the lead baseline: agreement with the formulas, other languages, errors."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.evaluation import rouge
from dragoman.evaluation.rouge import LEAD, METRICS, compare_summaries, lead, lead_words, summary_metrics

# Words that Porter's algorithm does not change.
WORDS = st.lists(st.sampled_from(["cat", "sat", "mat", "red", "big"]), max_size=8)


def shared(a: list[str], b: list[str], n: int) -> tuple[int, int, int]:
    """Return the numbers of n-grams that two texts have in common, and of those in each text."""
    grams = [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (a, b)]
    return (grams[0] & grams[1]).total(), grams[0].total(), grams[1].total()


def longest_common(a: list[str], b: list[str]) -> int:
    """Return the length of the longest common subsequence, computed by its definition."""
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return longest_common(a[:-1], b[:-1]) + 1
    return max(longest_common(a[:-1], b), longest_common(a, b[:-1]))


@settings(max_examples=60)
@given(WORDS, WORDS)
def test_values_equal_those_of_the_formulas(summary: list[str], reference: list[str]) -> None:
    metrics = summary_metrics([" ".join(summary)], [[" ".join(reference)]], ["x"], samples=1)
    shares = {
        "rouge1": shared(summary, reference, 1),
        "rouge2": shared(summary, reference, 2),
        "rougeL": (longest_common(summary, reference), len(summary), len(reference)),
    }
    for name, (common, of_summary, of_reference) in shares.items():
        values = metrics.rouge[name]
        assert values.precision == pytest.approx(100 * common / max(of_summary, 1))
        assert values.recall == pytest.approx(100 * common / max(of_reference, 1))
        assert values.f1 == pytest.approx(200 * common / max(of_summary + of_reference, 1))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1), st.text()), min_size=1))
def test_any_text_is_evaluated(cases: list[tuple[str, list[str], str]]) -> None:
    summaries, references, sources = [list(column) for column in zip(*cases, strict=True)]
    for language in (None, "de", "zh", "ja"):
        metrics = summary_metrics(summaries, references, sources, language=language, samples=2)
        for system in (metrics.rouge, metrics.lead):
            assert all(0 <= value <= 100 for values in system.values() for value in (values.f1, values.recall))
        json.dumps(metrics.to_json(), allow_nan=False)


def test_the_best_reference_is_used() -> None:
    several = summary_metrics(["red cat"], [["big mat", "red cat", "red mat"]], ["x"], samples=1)
    assert several.rouge["rouge2"].f1 == 100


def test_the_lead_is_the_beginning_of_the_source() -> None:
    assert lead("  The first\u2028words of  it. More.", 3) == "The first words"
    assert lead("short", 3) == "short"
    assert lead("", 3) == ""
    assert lead_words([["a b", "a b c d"], ["a b c"]]) == 3
    assert lead_words([[""], [" "]]) == 1
    source = "the cat sat on the mat and slept"
    metrics = summary_metrics(["dogs"], [["the cat sat"]], [source], samples=1)
    assert (metrics.lead["rouge1"].f1, metrics.rouge["rouge1"].f1) == (100, 0)


@pytest.mark.parametrize(
    ("language", "summary", "reference", "expected", "signature"),
    [
        # ROUGE's own tokenizer would split words at every umlaut.
        ("de", "die Größe", "eine Größe!", 50, "tok:intl|stem:no"),
        ("pt_BR", "ação", "nação", 0, "tok:intl|stem:no"),
        ("zh-Hans", "打开灯。", "关闭灯。", 100 / 3, "tok:zh|stem:no"),
        ("ja", "猫です", "犬です", 200 / 3, "tok:char|stem:no"),
        ("en-GB", "colours", "colour", 100, "tok:rouge|stem:porter"),
        (None, "colours", "colour", 100, "tok:rouge|stem:porter"),
    ],
)
def test_the_words_of_a_language(
    language: str | None, summary: str, reference: str, expected: float, signature: str
) -> None:
    metrics = summary_metrics([summary], [[reference]], [""], language=language, samples=1)
    assert metrics.rouge["rouge1"].f1 == pytest.approx(expected)
    assert f"|{signature}|" in metrics.signature
    assert metrics.unreadable == 0


def test_references_without_recognised_words_are_counted_and_reported() -> None:
    metrics = summary_metrics(["猫", "cat"], [["猫です"], ["cat"]], ["", ""], samples=1)
    assert metrics.unreadable == 1
    assert metrics.rouge["rouge1"].f1 == 50
    assert (
        "1 references contain no words that ROUGE's tokenizer (tok: above) recognises; was the model"
        in metrics.details()
    )


def test_tested_values_equal_the_metrics() -> None:
    references = [["the cat sat"], ["a dog ran", "dogs run"]]
    sources = ["here the cat sat down", "dogs run far"]
    metrics = summary_metrics(["the cat", "dogs"], references, sources, samples=50)
    by_name = {(result.metric, result.system): result for result in metrics.significance.results}
    for metric, key in METRICS.items():
        assert by_name[metric, "model"].value == pytest.approx(metrics.rouge[key].f1)
        assert by_name[metric, LEAD].value == pytest.approx(metrics.lead[key].f1)
        assert by_name[metric, LEAD].p_value is None
        assert math.isfinite(by_name[metric, "model"].p_value or math.nan)
    other = compare_summaries(references, "b", {"a": ["the cat", "dogs"], "b": ["", ""]}, samples=50)
    assert [(result.metric, result.system) for result in other.results][:2] == [("ROUGE-1", "b"), ("ROUGE-1", "a")]
    assert other.results[1].value == pytest.approx(metrics.rouge["rouge1"].f1)
    written = metrics.to_json()["against_lead"]
    assert written == json.loads(json.dumps(written))
    assert isinstance(written, dict)
    assert written["comparisons"][1]["score"] == pytest.approx(metrics.rouge["rouge1"].f1)


def test_invalid_arguments_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"expected 2 lines in the summaries, .* found 1"):
        summary_metrics(["a"], [["a"], ["b"]], ["a"])
    with pytest.raises(UserError, match="no lines"):
        summary_metrics([], [], [])
    with pytest.raises(UserError, match=r"expected 1 lines in the summaries of b, .* found 0"):
        compare_summaries([["a"]], "a", {"a": ["a"], "b": []})
    monkeypatch.setattr(rouge, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'dragoman\[summaries\]'"):
        summary_metrics(["a"], [["a"]], ["a"])
