"""The estimate of the remaining time, with a simulated clock."""

import pytest

from dragoman.training.forecast import Forecast


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(("updates", "validations", "validation_tokens"), [(3000, 5, 9000), (20_000, 10, 20_000)])
def test_after_a_minute_the_estimate_is_within_a_fifth(
    clock: Clock, updates: int, validations: int, validation_tokens: int
) -> None:
    # An update of 1,000 tokens takes 0.1 s, but the first ones take 1 s; a validation takes 4 times as long per token.
    validation_seconds = 4 * validation_tokens / 10_000
    forecast = Forecast(validation_tokens, clock)
    estimate: tuple[float, float] | None = None
    done = 0
    for update in range(1, updates + 1):
        clock.now += 1.0 if update <= 5 else 0.1
        forecast.record_update(1 / updates, 1000)
        if update * validations >= (done + 1) * updates:
            clock.now += validation_seconds
            forecast.record_validation()
            done += 1
        if estimate is None and clock.now >= 60:
            left = forecast.seconds_left(update / updates, validations - done, by_clock=False)
            assert left is not None
            estimate = clock.now, left
    assert estimate is not None
    assert estimate[0] + estimate[1] == pytest.approx(clock.now, rel=0.05)
    assert estimate[1] == pytest.approx(clock.now - estimate[0], rel=0.2)


def test_a_budget_of_minutes_includes_validations(clock: Clock) -> None:
    forecast = Forecast(1000, clock)
    for _ in range(100):
        clock.now += 0.5
        forecast.record_update(0.5 / 600, 1000)
    clock.now += 6
    forecast.record_validation()
    left = forecast.seconds_left(56 / 600, 4, by_clock=True)
    assert left == pytest.approx(600 - 56 + 6, rel=0.01)


def test_without_measured_updates_there_is_no_estimate(clock: Clock) -> None:
    forecast = Forecast(1000, clock)
    forecast.record_update(0.1, 10)
    assert forecast.seconds_left(0.1, 3, by_clock=False) is None
