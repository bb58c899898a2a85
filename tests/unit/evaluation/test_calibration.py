"""Logistic regression beside scikit-learn, and calibration errors that can be computed by hand."""

import numpy as np
import pytest
from sacrebleu import sentence_chrf as sacrebleu_chrf

from dragoman.errors import CorpusError
from dragoman.evaluation.calibration import draw_reliability, reliability
from dragoman.evaluation.logistic import LogisticMap, fit_logistic
from dragoman.evaluation.metrics import sentence_chrf


def drawn(lines: int, slope: float, offset: float) -> tuple[list[float], list[bool]]:
    """Return values, and outcomes with the probabilities of a logistic map."""
    generator = np.random.default_rng(3)
    values = generator.uniform(size=lines)
    return values.tolist(), (generator.uniform(size=lines) < 1 / (1 + np.exp(-slope * values - offset))).tolist()


def test_parameters_are_recovered() -> None:
    fitted = fit_logistic(*drawn(50_000, 6.0, -4.0))
    assert fitted.slope == pytest.approx(6, abs=0.15)
    assert fitted.offset == pytest.approx(-4, abs=0.1)


def test_the_fit_is_the_optimum() -> None:
    values, outcomes = drawn(400, 6.0, -4.0)
    fitted = fit_logistic(values, outcomes)
    # At the optimum, the predicted probabilities sum to the targets, and so do those weighted by the values.
    goods = sum(outcomes)
    targets = [(goods + 1) / (goods + 2) if good else 1 / (len(outcomes) - goods + 2) for good in outcomes]
    residuals = [fitted(value) - target for value, target in zip(values, targets, strict=True)]
    assert sum(residuals) == pytest.approx(0, abs=1e-6)
    assert np.dot(residuals, values) == pytest.approx(0, abs=1e-6)


def test_outcomes_that_a_value_separates_have_a_finite_fit() -> None:
    fitted = fit_logistic([0.1] * 50 + [0.9] * 50, [False] * 50 + [True] * 50)
    assert fitted(0.1) == pytest.approx(1 / 52, abs=1e-6)
    assert fitted(0.9) == pytest.approx(51 / 52, abs=1e-6)


@pytest.mark.parametrize("values", [[0.5, 0.5, 0.5], [1.0, 2.0, 3.0]])
def test_equal_values_and_equal_outcomes_are_refused(values: list[float]) -> None:
    outcomes = [True, False, True] if values[0] == values[1] else [True] * 3
    with pytest.raises(CorpusError, match="all values or all outcomes are equal"):
        fit_logistic(values, outcomes)


def test_a_logistic_map_does_not_overflow() -> None:
    steep = LogisticMap(slope=1e4, offset=-1e4)
    assert (steep(-1e4), steep(1.0), steep(1e4)) == (0.0, 0.5, 1.0)


def test_the_calibration_error_is_the_weighted_distance_of_the_bins() -> None:
    # Bin 0.2: 1 of 4 is true; bin 0.9 and 1.0: 3 of 4 are.
    result = reliability([0.2] * 4 + [0.9, 0.9, 1.0, 1.0], [True, False, False, False, True, True, True, False])
    assert [each.predicted for each in result.bins] == pytest.approx([0.2, 0.95])
    assert [(each.observed, each.count) for each in result.bins] == [(0.25, 4), (0.75, 4)]
    assert result.error == pytest.approx((0.05 + 0.2) / 2)
    assert result.brier == pytest.approx((0.64 + 3 * 0.04 + 2 * 0.01 + 0 + 1) / 8)
    assert (result.base_rate, result.count) == (0.5, 8)


def test_calibrated_probabilities_have_a_small_error_and_others_a_large_one() -> None:
    values, outcomes = drawn(5000, 6.0, -4.0)
    truth = LogisticMap(slope=6.0, offset=-4.0)
    calibrated = reliability([truth(value) for value in values], outcomes, samples=200)
    assert calibrated.error_samples.high < 0.04
    raw = reliability(values, outcomes, samples=200)
    assert raw.error_samples.low > 0.1
    assert raw.brier > calibrated.brier
    assert raw == reliability(values, outcomes, samples=200)


def test_chrf_of_single_lines_is_that_of_sacrebleu() -> None:
    hypotheses, references = ["Das Licht ist aus.", "Tür", ""], ["Das Licht ist an.", "Fenster", "x"]
    expected = [sacrebleu_chrf(each, [reference]).score for each, reference in zip(hypotheses, references, strict=True)]
    assert sentence_chrf(hypotheses, references) == expected


def test_the_diagram_is_a_picture() -> None:
    result = reliability([0.1, 0.8, 0.9], [False, True, True], samples=10)
    assert draw_reliability({"of $ $": result}, "png").startswith(b"\x89PNG")
    svg = draw_reliability({"confidence": result, "base rate": result}, "svg").decode()
    assert "confidence: calibration error" in svg
