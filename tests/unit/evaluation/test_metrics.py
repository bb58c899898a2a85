"""Metrics of translations: values, signatures, errors."""

import json
import math

import pytest

from dragoman.errors import UserError
from dragoman.evaluation.metrics import (
    TOKENIZERS,
    bleu_tokenizer_for,
    perplexity,
    translation_metrics,
)

REFERENCES = ["The cat sat on the mat.", "It is a guide to action.", "Nothing else matters."]


def test_a_perfect_translation() -> None:
    metrics = translation_metrics(REFERENCES, REFERENCES)
    assert metrics.bleu == pytest.approx(100)
    assert metrics.chrf == pytest.approx(100)
    assert metrics.ter == 0
    assert metrics.sentences == 3


def test_a_worse_translation_has_worse_metrics() -> None:
    better = ["The cat sat on a mat.", *REFERENCES[1:]]
    worse = ["A dog sat on a mat.", *REFERENCES[1:]]
    first, second = (translation_metrics(hypotheses, REFERENCES) for hypotheses in (better, worse))
    assert 100 > first.bleu > second.bleu > 0
    assert 100 > first.chrf > second.chrf > 0
    assert 0 < first.ter < second.ter


def test_the_order_of_lines_and_case_matter() -> None:
    assert translation_metrics(REFERENCES[::-1], REFERENCES).bleu < 50
    assert translation_metrics([line.upper() for line in REFERENCES], REFERENCES).bleu < 50


def test_metrics_are_written_as_plain_json() -> None:
    metrics = translation_metrics(REFERENCES, REFERENCES)
    read_back = json.loads(json.dumps(metrics.to_json()))
    assert read_back == metrics.to_json()
    assert set(read_back) == {"bleu", "chrf", "ter", "sentences", "signatures"}
    assert set(read_back["signatures"]) == {"bleu", "chrf", "ter"}


def test_text_without_spaces_is_compared_by_characters() -> None:
    hypotheses, references = ["打开客厅的灯。"], ["关闭客厅的灯。"]
    words = translation_metrics(hypotheses, references)
    characters = translation_metrics(hypotheses, references, tokenize="zh")
    assert words.bleu == 0
    assert characters.bleu > 40
    assert words.ter == 100
    assert characters.ter == pytest.approx(100 * 2 / 7)
    assert "tok:zh" in characters.signatures["bleu"]
    assert "asian:yes" in characters.signatures["ter"]


@pytest.mark.parametrize("tokenize", TOKENIZERS)
def test_every_tokenizer_needs_no_further_packages(tokenize: str) -> None:
    assert translation_metrics(REFERENCES, REFERENCES, tokenize=tokenize).bleu == pytest.approx(100)


def test_unusual_lines_are_evaluated() -> None:
    strange = ["", " ", "a\u2028b", "nul\0", "\ud800", "line\nfeed", "\t", "{name}", "x" * 100_000]
    metrics = translation_metrics(strange, strange[::-1])
    assert metrics.sentences == len(strange)
    assert all(math.isfinite(value) for value in (metrics.bleu, metrics.chrf, metrics.ter))
    assert translation_metrics([""] * 3, REFERENCES).bleu == 0
    assert translation_metrics([""], [""]).ter == 0


def test_numbers_of_lines_must_be_equal() -> None:
    with pytest.raises(UserError, match="have 2 lines, the references 3"):
        translation_metrics(REFERENCES[:2], REFERENCES)
    with pytest.raises(UserError, match="no lines"):
        translation_metrics([], [])


# These need further packages or downloads, or are unknown.
@pytest.mark.parametrize("tokenize", ["", "ZH", "ja-mecab", "flores200", "spm"])
def test_other_tokenizers_are_refused(tokenize: str) -> None:
    with pytest.raises(UserError, match="choose one of 13a, intl, zh, char, none"):
        translation_metrics(REFERENCES, REFERENCES, tokenize=tokenize)


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [
        (None, "13a"),
        ("", "13a"),
        ("de", "13a"),
        ("zh", "zh"),
        ("zh-Hant", "zh"),
        ("ZH_cn", "zh"),
        ("yue", "zh"),
        ("ja", "char"),
        ("ko-KR", "char"),
        ("th", "char"),
        ("zha", "13a"),
    ],
)
def test_the_tokenizer_of_a_language(language: str | None, tokenizer: str) -> None:
    assert bleu_tokenizer_for(language) == tokenizer
    assert tokenizer in TOKENIZERS


def test_perplexity() -> None:
    # The perplexity of a uniform distribution over 8 tokens.
    assert perplexity(5 * math.log(1 / 8), 5) == pytest.approx(8)
    assert perplexity(0.0, 3) == 1
    assert perplexity(-1e6, 1) == math.inf
    assert perplexity(-math.inf, 1) == math.inf
    assert math.isnan(perplexity(math.nan, 1))
    with pytest.raises(UserError, match="at least one"):
        perplexity(0.0, 0)
