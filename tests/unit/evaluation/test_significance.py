"""Paired bootstrap: agreement with sacrebleu, detection of real differences, and rate of false alarms."""

import random
from collections.abc import Sequence

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from dragoman.errors import UserError
from dragoman.evaluation.metrics import translation_metrics
from dragoman.evaluation.significance import BootstrapResult, Significance, paired_bootstrap

SENTENCES = 120


def make_references() -> list[str]:
    choose = random.Random(1)
    words = [f"word{i}" for i in range(200)]
    return [" ".join(choose.choices(words, k=choose.randint(4, 12))) for _ in range(SENTENCES)]


def spoil(lines: list[str], share: float, seed: int) -> list[str]:
    """Replace a random share of the words."""
    choose = random.Random(seed)
    return [" ".join("wrong" if choose.random() < share else word for word in line.split()) for line in lines]


BASELINE_NAME = "(baseline)"
REFERENCES = make_references()
BASELINE = spoil(REFERENCES, 0.20, seed=2)
SIMILAR = spoil(REFERENCES, 0.19, seed=3)
BETTER = spoil(REFERENCES, 0.05, seed=4)


def result_of(significance: Significance, system: str, metric: str = "BLEU") -> BootstrapResult:
    (result,) = (r for r in significance.results if (r.system, r.metric) == (system, metric))
    return result


@pytest.fixture(scope="module")
def result() -> Significance:
    others = {"similar": SIMILAR, "better": BETTER, "same": BASELINE}
    return paired_bootstrap(REFERENCES, BASELINE, others, samples=400)


def test_results_are_ordered_by_metric_and_system(result: Significance) -> None:
    systems = [BASELINE_NAME, "similar", "better", "same"]
    expected = [(metric, system) for metric in ("BLEU", "chrF2") for system in systems]
    assert [(r.metric, r.system) for r in result.results] == expected
    assert (result.sentences, result.samples, result.seed) == (SENTENCES, 400, 12345)


def test_tested_values_equal_the_metrics(result: Significance) -> None:
    metrics = translation_metrics(BETTER, REFERENCES)
    assert result_of(result, "better").value == pytest.approx(metrics.bleu)
    assert result_of(result, "better", "chrF2").value == pytest.approx(metrics.chrf)
    assert result.signatures == {
        "BLEU": metrics.signatures["bleu"],
        "chrF2": metrics.signatures["chrf"],
    }


def test_means_and_intervals_equal_those_of_sacrebleu(result: Significance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SACREBLEU_SEED", raising=False)
    systems: list[tuple[str, Sequence[str]]] = [(BASELINE_NAME, BASELINE), ("similar", SIMILAR), ("better", BETTER)]
    metrics = {"BLEU": BLEU(), "chrF2": CHRF()}
    test = PairedTest(systems, metrics, [REFERENCES], test_type="bs", n_samples=400)
    _, by_sacrebleu = test()
    for metric in ("BLEU", "chrF2"):
        for (name, _), expected in zip(systems, by_sacrebleu[metric], strict=True):
            assert not isinstance(expected, str)
            actual = result_of(result, name, metric)
            assert actual.value == pytest.approx(expected.score)
            # Sacrebleu adds 32-bit floats.
            assert actual.resampled.mean == pytest.approx(expected.mean, rel=1e-5)
            half_width = (actual.resampled.high - actual.resampled.low) / 2
            assert half_width == pytest.approx(expected.ci, rel=1e-4)


@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_a_real_difference_is_found(result: Significance, metric: str) -> None:
    better = result_of(result, "better", metric)
    assert better.p_value == pytest.approx(1 / 401)
    assert better.difference is not None
    assert 0 < better.difference.low < better.difference.mean < better.difference.high
    measured = better.value - result_of(result, BASELINE_NAME, metric).value
    assert better.difference.mean == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("metric", ["BLEU", "chrF2"])
def test_a_random_difference_is_not_significant(result: Significance, metric: str) -> None:
    similar = result_of(result, "similar", metric)
    assert similar.difference is not None
    assert similar.difference.low < 0 < similar.difference.high
    assert similar.p_value is not None
    assert 0.05 < similar.p_value < 1


def test_a_system_does_not_differ_from_itself(result: Significance) -> None:
    same = result_of(result, "same")
    assert same.p_value == 1
    assert same.difference is not None
    assert (same.difference.low, same.difference.high) == (0, 0)


def test_the_baseline_has_no_difference(result: Significance) -> None:
    baseline = result_of(result, BASELINE_NAME)
    assert baseline.p_value is None
    assert baseline.difference is None


def test_false_alarms_are_as_rare_as_stated() -> None:
    # The systems have equal quality, so p < 0.1 is expected in one of ten cases.
    alarms = 0
    for trial in range(40):
        first, second = (spoil(REFERENCES[:60], 0.3, seed=100 + 2 * trial + i) for i in (0, 1))
        outcome = paired_bootstrap(REFERENCES[:60], first, {"b": second}, samples=100, seed=trial)
        p_value = result_of(outcome, "b", "chrF2").p_value
        assert p_value is not None
        alarms += p_value < 0.1
    assert alarms <= 10


def test_the_result_depends_only_on_the_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(seed: int) -> Significance:
        return paired_bootstrap(REFERENCES, BASELINE, {"b": SIMILAR}, samples=50, seed=seed)

    first = run(1)
    monkeypatch.setenv("SACREBLEU_SEED", "99")
    random.seed(5)
    assert run(1) == first
    assert result_of(run(2), "b").resampled != result_of(first, "b").resampled


def test_other_systems_do_not_change_the_result_of_a_system() -> None:
    alone = paired_bootstrap(REFERENCES, BASELINE, {"b": SIMILAR}, samples=50)
    together = paired_bootstrap(REFERENCES, BASELINE, {"a": BETTER, "b": SIMILAR}, samples=50)
    assert result_of(alone, "b") == result_of(together, "b")


def test_chinese_is_compared_by_characters() -> None:
    references = ["打开客厅的灯。", "关闭厨房的灯。"]
    outcome = paired_bootstrap(references, ["打开卧室的灯。", "关闭。"], {"b": references}, tokenize="zh", samples=20)
    assert result_of(outcome, BASELINE_NAME).value > 5
    assert result_of(outcome, "b").value == pytest.approx(100)


def test_a_single_sample_of_a_single_line() -> None:
    outcome = paired_bootstrap(["a"], [""], {"b": ["a"]}, samples=1)
    assert result_of(outcome, "b", "chrF2").value == pytest.approx(100)


def test_invalid_arguments_are_refused() -> None:
    with pytest.raises(UserError, match="hypotheses of b have 2 lines, the references 3"):
        paired_bootstrap(REFERENCES[:3], BASELINE[:3], {"b": SIMILAR[:2]})
    with pytest.raises(UserError, match=r"hypotheses of \(baseline\) have 2 lines"):
        paired_bootstrap(REFERENCES[:3], BASELINE[:2], {"b": SIMILAR[:3]})
    with pytest.raises(UserError, match="no lines"):
        paired_bootstrap([], [], {"b": []})
    with pytest.raises(UserError, match="at least one system to compare"):
        paired_bootstrap(REFERENCES, BASELINE, {})
    for samples, seed in ((0, 1), (1, -1)):
        with pytest.raises(UserError, match="samples >= 1 and seed >= 0"):
            paired_bootstrap(REFERENCES, BASELINE, {"b": SIMILAR}, samples=samples, seed=seed)
    with pytest.raises(UserError, match="unknown BLEU tokenizer 'klingon'"):
        paired_bootstrap(REFERENCES, BASELINE, {"b": SIMILAR}, tokenize="klingon")
