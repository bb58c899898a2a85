"""Error rates, accuracies and ROUGE computed by hand, and their tables.

If a value in this file has to change, metrics reported earlier can no longer be compared with new ones.
"""

from dataclasses import asdict
from importlib.metadata import version

import pytest

from dragoman.evaluation.error_rates import Counts, compare_symbols, count_errors, symbol_metrics
from dragoman.evaluation.rouge import summary_metrics

RAPIDFUZZ = version("rapidfuzz")
ROUGE_SCORE = version("rouge-score")

# Output, references, and counts: edits, symbols, matching, positions, wrong.
CASES = [
    # Both references have a distance of one edit; the longer reference is used.
    ("a b c", ["a b", "a b c d"], Counts(1, 4, 3, 4, 1)),
    # One symbol is missing at the beginning: one edit, but no position is correct.
    ("b c d", ["a b c d"], Counts(1, 4, 0, 4, 1)),
    # The second reference has a distance of two substitutions, the first of three edits.
    ("a x y d e", ["a d e f", "a b c d e"], Counts(2, 5, 3, 5, 1)),
    ("AH N D", ["AE N D", "AH N D", "AH N"], Counts(0, 3, 3, 3, 0)),
    ("", ["a b"], Counts(2, 2, 0, 2, 1)),
    ("x y z", [""], Counts(3, 0, 0, 3, 1)),
    ("", [""], Counts(0, 0, 0, 0, 0)),
    # An output that equals one of its references is correct.
    ("a b", ["c d", "a  b "], Counts(0, 2, 2, 2, 0)),
]
OUTPUTS = [output for output, _, _ in CASES]
REFERENCES = [references for _, references, _ in CASES]


@pytest.mark.parametrize(("output", "references", "expected"), CASES)
def test_counts_by_hand(output: str, references: list[str], expected: Counts) -> None:
    assert count_errors(output, references) == expected


def test_rates_by_hand() -> None:
    metrics = symbol_metrics(OUTPUTS, REFERENCES, [""] * len(CASES))
    # Edits 1 + 1 + 2 + 2 + 3, symbols 4 + 4 + 5 + 3 + 2 + 2; matching 3 + 3 + 3 + 2, positions 4+4+5+3+2+3+2.
    assert asdict(metrics.rates) == pytest.approx(
        {
            "symbol_error_rate": 100 * 9 / 20,
            "sequence_error_rate": 100 * 5 / 8,
            "symbol_accuracy": 100 * 11 / 23,
            "sequence_accuracy": 100 * 3 / 8,
            "sequences": 8,
            "symbols": 20,
        }
    )
    assert metrics.signature == f"nrefs:var|case:mixed|tok:space|ref:nearest|lib:rapidfuzz|version:{RAPIDFUZZ}"


def test_rates_without_symbols() -> None:
    nothing = symbol_metrics(["", ""], [[""], ["", " "]], ["a", "b"]).rates
    assert (nothing.symbol_error_rate, nothing.symbol_accuracy) == (None, None)
    assert (nothing.sequence_error_rate, nothing.sequence_accuracy) == (0, 100)
    invented = symbol_metrics(["x", ""], [[""], [""]], ["a", "b"])
    assert (invented.rates.symbol_error_rate, invented.rates.symbol_accuracy) == (None, 0)
    assert invented.rows()[0][:2] == ("symbol error rate", "- %")


def test_a_table_by_length() -> None:
    sources = ["a " * length for length in (41, 50, 100, 101, 400, 300)]
    references = [[source] for source in sources]
    # At length 50, one symbol is wrong; at 300, half of them are missing; at 400, there are 400 additional symbols.
    outputs = [*sources[:1], "a " * 49 + "b", *sources[2:4], "a " * 800, "a " * 150]
    metrics = symbol_metrics(outputs, references, sources)
    assert metrics.details() == (
        "source symbols  sequences  symbol errors  symbol accuracy  sequence accuracy\n"
        "41 to 50                2         1.10 %          98.90 %            50.00 %\n"
        "51 to 100               1         0.00 %         100.00 %           100.00 %\n"
        "101 to 200              1         0.00 %         100.00 %           100.00 %\n"
        "201 to 400              2        78.57 %          50.00 %             0.00 %"
    )
    own = symbol_metrics(outputs, references, sources, length_bounds=(40, 100, 350))
    assert [(group.shortest, group.longest, group.rates.sequences) for group in own.by_length] == [
        (41, 100, 3),
        (101, 350, 2),
        (351, 400, 1),
    ]


def test_the_table_of_a_significance_test() -> None:
    outputs, references = ["a b", "a c"] * 20, [["a b"]] * 40
    result = compare_symbols(references, "first", {"second": ["a b"] * 40, "first": outputs}, samples=200, seed=1)
    assert result.table() == (
        "metric               system   value     95 % interval  difference     95 % interval      p\n"
        "symbol error rate    first    25.00    16.25 to 32.50\n"
        "symbol error rate    second    0.00      0.00 to 0.00      -24.69  -32.50 to -16.25  0.005\n"
        "sequence error rate  first    50.00    32.50 to 65.00\n"
        "sequence error rate  second    0.00      0.00 to 0.00      -49.39  -65.00 to -32.50  0.005\n"
        "symbol accuracy      first    75.00    67.50 to 83.75\n"
        "symbol accuracy      second  100.00  100.00 to 100.00      +24.69    16.25 to 32.50  0.005\n"
        f"symbols: nrefs:1|case:mixed|tok:space|ref:nearest|lib:rapidfuzz|version:{RAPIDFUZZ}\n"
        "paired bootstrap: 40 sentences, 200 samples, seed 1; p two-sided"
    )


# Summary, references, and precision and recall of ROUGE-1, ROUGE-2, ROUGE-L.
SUMMARIES = [
    ("the cat sat", ["the cat sat down"], (1, 3 / 4), (1, 2 / 3), (1, 3 / 4)),
    # The same words in another order: the common bigram and the longest common subsequence are "the cat".
    ("sat the cat", ["the cat sat down"], (1, 3 / 4), (1 / 2, 1 / 3), (2 / 3, 2 / 4)),
    # Case, punctuation and endings (of words of more than three letters) are ignored.
    ("Running: dogs!", ["runs dog", "nothing"], (1, 1), (1, 1), (1, 1)),
    # A word that occurs once in the reference is counted once.
    ("the the", ["the end"], (1 / 2, 1 / 2), (0, 0), (1 / 2, 1 / 2)),
    ("", ["the end"], (0, 0), (0, 0), (0, 0)),
    ("the end", [""], (0, 0), (0, 0), (0, 0)),
]


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


@pytest.mark.parametrize(("summary", "references", "one", "two", "longest"), SUMMARIES)
def test_rouge_by_hand(
    summary: str,
    references: list[str],
    one: tuple[float, float],
    two: tuple[float, float],
    longest: tuple[float, float],
) -> None:
    metrics = summary_metrics([summary], [references], ["a source"], samples=1)
    expected = {"rouge1": one, "rouge2": two, "rougeL": longest}
    assert metrics.rouge.keys() == expected.keys()
    for name, (precision, recall) in expected.items():
        values = {"precision": 100 * precision, "recall": 100 * recall, "f1": 100 * f1(precision, recall)}
        assert asdict(metrics.rouge[name]) == pytest.approx(values)


def test_summaries_compared_with_the_lead() -> None:
    sources = ["A small editor for large files, with many windows.", "Library of fast sorting routines in plain C"]
    references = [["editor for large files"], ["fast sorting", "sorting routines in C"]]
    # The references have 4, 2 and 4 words: the mean is 10 / 3, so the lead has 3 words.
    metrics = summary_metrics(["editor for files", "sorting"], references, sources, system="ours", samples=100, seed=1)
    assert metrics.lead_words == 3
    # "A small editor": p 1/3, r 1/4. "Library of fast": against "fast sorting" p 1/3, r 1/2.
    assert metrics.lead["rouge1"].f1 == pytest.approx(100 * (2 / 7 + 2 / 5) / 2)
    # p 1, r 3/4; p 1, r 1/2 against "fast sorting".
    assert metrics.rouge["rouge1"].f1 == pytest.approx(100 * (6 / 7 + 2 / 3) / 2)
    assert metrics.signature == f"nrefs:var|case:lc|tok:rouge|stem:porter|lib:rouge-score|version:{ROUGE_SCORE}"
    assert metrics.details() == (
        "metric   system  value   95 % interval  difference   95 % interval      p\n"
        "ROUGE-1  (lead)  34.29  28.57 to 40.00\n"
        "ROUGE-1  ours    76.19  66.67 to 85.71      +41.30  26.67 to 57.14  0.010\n"
        "ROUGE-2  (lead)   0.00    0.00 to 0.00\n"
        "ROUGE-2  ours    20.00   0.00 to 40.00      +19.20   0.00 to 40.00  0.228\n"
        "ROUGE-L  (lead)  34.29  28.57 to 40.00\n"
        "ROUGE-L  ours    76.19  66.67 to 85.71      +41.30  26.67 to 57.14  0.010\n"
        f"ROUGE: {metrics.signature}\n"
        "paired bootstrap: 2 sentences, 100 samples, seed 1; p two-sided\n"
        "(lead): the first 3 words of the source, the mean length of the references"
    )
