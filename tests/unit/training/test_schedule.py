"""The learning-rate schedule: values of the paper's equation, and the shape of every kind of schedule."""

import math
from typing import Any, Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.training.schedule import ScheduleConfig, learning_rate

Kind = Literal["paper", "linear", "cosine", "constant"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        # Calculated by hand: 512^-0.5 · step · 4000^-1.5, and from step 4000 on 512^-0.5 · step^-0.5.
        (1, 1.7469281074217108e-07),
        (2000, 3.4938562148434216e-04),
        (4000, 6.987712429686843e-04),
        (16000, 3.4938562148434216e-04),
        (100000, 1.3975424859373687e-04),
    ],
)
def test_values_of_the_papers_equation(step: int, rate: float) -> None:
    assert learning_rate(ScheduleConfig(), 512, step, progress=0.5) == pytest.approx(rate, rel=1e-13)


@given(step=st.integers(1, 10**7), d_model=st.integers(1, 4096), warmup=st.integers(1, 10**5))
def test_the_schedule_equals_the_papers_equation(step: int, d_model: int, warmup: int) -> None:
    expected = d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    rate = learning_rate(ScheduleConfig(warmup=warmup), d_model, step, progress=0.1)
    assert rate == pytest.approx(expected, rel=1e-12)


def test_the_papers_schedule_with_another_peak() -> None:
    config = ScheduleConfig(warmup=100, peak_learning_rate=0.002)
    assert [learning_rate(config, 512, step, 0.1) for step in (50, 100, 400)] == [0.001, 0.002, 0.001]


def test_the_papers_schedule_has_the_same_shape_with_a_budget_of_minutes() -> None:
    by_updates = ScheduleConfig(warmup=100, peak_learning_rate=0.002)
    by_clock = ScheduleConfig(warmup=0.1, peak_learning_rate=0.002)
    for step in range(1, 1001):
        rate = learning_rate(by_clock, 512, 77, progress=step / 1000)
        assert rate == pytest.approx(learning_rate(by_updates, 512, step, progress=0.3), rel=1e-12)


@pytest.mark.parametrize("warmup", [100, 0.1])
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("linear", {1: 0.01, 50: 0.5, 100: 1.0, 550: 0.6, 1000: 0.2}),
        ("cosine", {1: 0.01, 50: 0.5, 100: 1.0, 325: 0.6 + 0.4 * math.sqrt(0.5), 550: 0.6, 1000: 0.2}),
        ("constant", {1: 0.01, 50: 0.5, 100: 1.0, 550: 1.0, 1000: 1.0}),
    ],
)
def test_values_of_the_other_kinds(kind: Kind, warmup: float, expected: dict[int, float]) -> None:
    config = ScheduleConfig(kind=kind, warmup=warmup, peak_learning_rate=1.0, final_share=0.2)
    rates = {step: learning_rate(config, 512, step, progress=step / 1000) for step in expected}
    assert rates == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["linear", "cosine", "constant"])
def test_without_warm_up_training_begins_at_the_peak(kind: Kind) -> None:
    config = ScheduleConfig(kind=kind, warmup=0, peak_learning_rate=0.5)
    assert learning_rate(config, 512, 1, progress=0.0) == 0.5
    assert learning_rate(config, 512, 1, progress=1e-9) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_warm_up_as_long_as_the_run_ends_at_the_peak(kind: Kind) -> None:
    config = ScheduleConfig(kind=kind, warmup=10, peak_learning_rate=0.5)
    rates = [learning_rate(config, 512, step, progress=step / 10) for step in range(1, 11)]
    assert rates == pytest.approx([0.05 * step for step in range(1, 11)])


schedules = st.builds(
    ScheduleConfig,
    kind=st.sampled_from(KINDS),
    warmup=st.integers(1, 300).map(float) | st.floats(1e-3, 0.999),
    peak_learning_rate=st.floats(1e-6, 1.0),
    final_share=st.floats(0, 1),
)


def peak_of(config: ScheduleConfig) -> float:
    assert config.peak_learning_rate is not None
    return config.peak_learning_rate


@given(schedules, st.lists(st.floats(1e-4, 1), min_size=1, max_size=300))
def test_the_rate_rises_then_falls_within_bounds(config: ScheduleConfig, durations: list[float]) -> None:
    # Updates have different durations, as with a budget of minutes; equal durations are a budget of updates.
    fractions = [sum(durations[: i + 1]) / sum(durations) for i in range(len(durations))]
    points = [(step, min(fraction, 1.0)) for step, fraction in enumerate(fractions, start=1)]
    rates = [learning_rate(config, 512, step, progress) for step, progress in points]
    warm = [(step if config.warmup >= 1 else progress) <= config.warmup for step, progress in points]
    peak = peak_of(config)
    floor = 0.0 if config.kind == "paper" else peak * config.final_share
    slack = 1e-12 * peak
    for i, rate in enumerate(rates):
        assert (0 if warm[i] else floor) - slack <= rate <= peak + slack
        if i > 0 and warm[i]:
            assert rate >= rates[i - 1]
        elif i > 0 and not warm[i - 1]:
            assert rate <= rates[i - 1] + slack
    if not warm[-1] and config.kind in ("linear", "cosine"):
        assert rates[-1] == pytest.approx(floor, abs=1e-9 * peak)


@given(schedules)
def test_there_is_no_jump_at_the_end_of_the_warm_up(config: ScheduleConfig) -> None:
    peak = peak_of(config)
    if config.warmup >= 1:
        # The first update after the warm-up differs by one step of the decay at most.
        step, total = int(config.warmup), 100 * int(config.warmup) + 100
        before = learning_rate(config, 512, step, step / total)
        after = learning_rate(config, 512, step + 1, (step + 1) / total)
        assert before == pytest.approx(peak, rel=1e-12)
        assert after == pytest.approx(peak, rel=1 / step)
    else:
        before = learning_rate(config, 512, 5, config.warmup)
        after = learning_rate(config, 512, 5, config.warmup * (1 + 1e-9))
        assert before == pytest.approx(peak, rel=1e-12)
        assert after == pytest.approx(peak, rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"warmup": -1}, "warmup must be a whole number of updates"),
        ({"warmup": 1.5}, "warmup must be a whole number of updates"),
        ({"warmup": float("nan")}, "warmup must be"),
        ({"warmup": float("inf")}, "warmup must be"),
        ({"warmup": 0, "peak_learning_rate": 1.0}, "requires a warmup above 0"),
        ({"warmup": 0.1}, "give peak_learning_rate"),
        ({"kind": "cosine"}, "give peak_learning_rate"),
        ({"peak_learning_rate": 0.0}, "peak_learning_rate must be above 0"),
        ({"peak_learning_rate": float("nan")}, "peak_learning_rate must be above 0"),
        ({"final_share": 1.1}, r"final_share must be in \[0, 1\]"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ScheduleConfig(**settings)
