"""ROUGE and the lead baseline: agreement with the formulas, other languages, what is refused."""

import json
import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import UserError
from dragoman.evaluation import rouge
from dragoman.evaluation.rouge import LEAD, METRICS, compare_summaries, lead, lead_words, summary_metrics

# Words that Porter's algorithm leaves as they are.
WORDS = st.lists(st.sampled_from(["cat", "sat", "mat", "red", "big"]), max_size=8)


def shared(a: list[str], b: list[str], n: int) -> tuple[int, int, int]:
    """n-grams that two texts share, and that each has."""
    grams = [Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1)) for words in (a, b)]
    return (grams[0] & grams[1]).total(), grams[0].total(), grams[1].total()


def longest_common(a: list[str], b: list[str]) -> int:
    """The length of the longest common subsequence, by its definition."""
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return longest_common(a[:-1], b[:-1]) + 1
    return max(longest_common(a[:-1], b), longest_common(a, b[:-1]))


@settings(max_examples=60)
@given(WORDS, WORDS)
def test_scores_are_those_of_the_formulas(summary: list[str], reference: list[str]) -> None:
    scores = summary_metrics([" ".join(summary)], [[" ".join(reference)]], ["x"], samples=1)
    shares = {
        "rouge1": shared(summary, reference, 1),
        "rouge2": shared(summary, reference, 2),
        "rougeL": (longest_common(summary, reference), len(summary), len(reference)),
    }
    for name, (common, of_summary, of_reference) in shares.items():
        found = scores.rouge[name]
        assert found.precision == pytest.approx(100 * common / max(of_summary, 1))
        assert found.recall == pytest.approx(100 * common / max(of_reference, 1))
        assert found.f1 == pytest.approx(200 * common / max(of_summary + of_reference, 1))


@settings(max_examples=20)
@given(st.lists(st.tuples(st.text(max_size=30), st.lists(st.text(max_size=30), min_size=1), st.text()), min_size=1))
def test_any_text_is_scored(cases: list[tuple[str, list[str], str]]) -> None:
    summaries, references, sources = [list(column) for column in zip(*cases, strict=True)]
    for language in (None, "de", "zh", "ja"):
        scores = summary_metrics(summaries, references, sources, language=language, samples=2)
        for side in (scores.rouge, scores.lead):
            assert all(0 <= value <= 100 for score in side.values() for value in (score.f1, score.recall))
        json.dumps(scores.to_json(), allow_nan=False)


def test_the_best_reference_counts() -> None:
    several = summary_metrics(["red cat"], [["big mat", "red cat", "red mat"]], ["x"], samples=1)
    assert several.rouge["rouge2"].f1 == 100


def test_the_lead() -> None:
    assert lead("  The first\u2028words of  it. More.", 3) == "The first words"
    assert lead("short", 3) == "short"
    assert lead("", 3) == ""
    assert lead_words([["a b", "a b c d"], ["a b c"]]) == 3
    assert lead_words([[""], [" "]]) == 1
    source = "the cat sat on the mat and slept"
    scores = summary_metrics(["dogs"], [["the cat sat"]], [source], samples=1)
    assert (scores.lead["rouge1"].f1, scores.rouge["rouge1"].f1) == (100, 0)


@pytest.mark.parametrize(
    ("language", "summary", "reference", "expected", "signature"),
    [
        # Whole words, which ROUGE's own tokenizer would cut at every umlaut.
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
    scores = summary_metrics([summary], [[reference]], [""], language=language, samples=1)
    assert scores.rouge["rouge1"].f1 == pytest.approx(expected)
    assert f"|{signature}|" in scores.signature
    assert scores.unreadable == 0


def test_references_that_cannot_be_read_are_counted_and_told() -> None:
    scores = summary_metrics(["猫", "cat"], [["猫です"], ["cat"]], ["", ""], samples=1)
    assert scores.unreadable == 1
    assert scores.rouge["rouge1"].f1 == 50
    assert "knows (tok: above): 1; was the model" in scores.details()


def test_significance_is_of_the_scores() -> None:
    references = [["the cat sat"], ["a dog ran", "dogs run"]]
    sources = ["here the cat sat down", "dogs run far"]
    scores = summary_metrics(["the cat", "dogs"], references, sources, samples=50)
    by_name = {(c.metric, c.system): c for c in scores.significance.comparisons}
    for metric, key in METRICS.items():
        assert by_name[metric, "model"].score == pytest.approx(scores.rouge[key].f1)
        assert by_name[metric, LEAD].score == pytest.approx(scores.lead[key].f1)
        assert by_name[metric, LEAD].p_value is None
        assert math.isfinite(by_name[metric, "model"].p_value or math.nan)
    other = compare_summaries(references, "b", {"a": ["the cat", "dogs"], "b": ["", ""]}, samples=50)
    assert [(c.metric, c.system) for c in other.comparisons][:2] == [("ROUGE-1", "b"), ("ROUGE-1", "a")]
    assert other.comparisons[1].score == pytest.approx(scores.rouge["rouge1"].f1)


def test_bad_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="the summaries are 1, but 2"):
        summary_metrics(["a"], [["a"], ["b"]], ["a"])
    with pytest.raises(UserError, match="no lines"):
        summary_metrics([], [], [])
    with pytest.raises(UserError, match="the summaries of b are 0"):
        compare_summaries([["a"]], "a", {"a": ["a"], "b": []})
    monkeypatch.setattr(rouge, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'dragoman\[summaries\]'"):
        summary_metrics(["a"], [["a"]], ["a"])
