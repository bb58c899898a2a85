"""Metrics computed by hand, and their signatures.

If a value in this file has to change, metrics reported earlier can no longer be compared with new ones.
"""

import math
from importlib.metadata import version

import pytest

from dragoman.evaluation.metrics import translation_metrics
from dragoman.evaluation.significance import paired_bootstrap

HYPOTHESES = ["the cat sat on a mat", "there is a dog in the garden"]
REFERENCES = ["the cat sat on the mat", "there is a dog in our garden"]


def test_bleu_by_hand() -> None:
    # Matching n-grams / n-grams of 6 + 7 words. The lengths are equal, so there is no brevity penalty.
    precisions = [(5 + 6) / 13, (3 + 4) / 11, (2 + 3) / 9, (1 + 2) / 7]
    expected = 100 * math.prod(precisions) ** 0.25
    assert translation_metrics(HYPOTHESES, REFERENCES).bleu == pytest.approx(expected)
    assert expected == pytest.approx(59.8, abs=0.05)


def test_brevity_penalty_by_hand() -> None:
    # Every n-gram matches, but there are 4 words instead of 6.
    metrics = translation_metrics(["the cat sat on"], ["the cat sat on the mat"])
    assert metrics.bleu == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_chrf_by_hand() -> None:
    # Without spaces: recall 3/4 and precision 3/3 for characters; recall 2/3 for bigrams and 1/2 for trigrams.
    precision = 1.0
    recall = (3 / 4 + 2 / 3 + 1 / 2) / 3
    # Orders 4 to 6 are ignored, because one of the texts has no such n-grams.
    expected = 100 * 5 * precision * recall / (4 * precision + recall)
    assert translation_metrics(["ab c"], ["ab cd"]).chrf == pytest.approx(expected)


def test_ter_by_hand() -> None:
    # Two substitutions over 13 words.
    assert translation_metrics(HYPOTHESES, REFERENCES).ter == pytest.approx(100 * 2 / 13)
    # One shift of a phrase, which counts as one edit, over 6 words.
    shifted = translation_metrics(["on the mat the cat sat"], ["the cat sat on the mat"])
    assert shifted.ter == pytest.approx(100 / 6)


def test_signatures() -> None:
    installed = version("sacrebleu")
    assert translation_metrics(HYPOTHESES, REFERENCES).signatures == {
        "bleu": f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{installed}",
        "chrf": f"nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{installed}",
        "ter": f"nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:{installed}",
    }


def test_bootstrap_table() -> None:
    result = paired_bootstrap(REFERENCES * 10, HYPOTHESES * 10, {"perfect": REFERENCES * 10}, samples=200, seed=1)
    installed = version("sacrebleu")
    assert result.table() == (
        "metric  system       value     95 % interval  difference   95 % interval      p\n"
        "BLEU    (baseline)   59.84    57.64 to 61.79\n"
        "BLEU    perfect     100.00  100.00 to 100.00      +40.17  38.21 to 42.36  0.005\n"
        "chrF2   (baseline)   68.78    67.78 to 69.66\n"
        "chrF2   perfect     100.00  100.00 to 100.00      +31.22  30.34 to 32.22  0.005\n"
        f"BLEU: nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{installed}\n"
        f"chrF2: nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{installed}\n"
        "paired bootstrap: 20 sentences, 200 samples, seed 1; p two-sided"
    )
