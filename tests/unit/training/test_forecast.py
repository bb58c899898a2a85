"""The time left, on a clock that the test moves."""

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
def test_after_a_minute_the_time_left_is_right_within_a_fifth(
    clock: Clock, updates: int, validations: int, validation_tokens: int
) -> None:
    # 1,000 tokens in 0.1 s; the first updates take ten times that; a validation, four times as long per token.
    validation_seconds = 4 * validation_tokens / 10_000
    forecast = Forecast(validation_tokens, clock)
    said: tuple[float, float] | None = None
    done = 0
    for update in range(1, updates + 1):
        clock.now += 1.0 if update <= 5 else 0.1
        forecast.updated(1 / updates, 1000)
        if update * validations >= (done + 1) * updates:
            clock.now += validation_seconds
            forecast.validated()
            done += 1
        if said is None and clock.now >= 60:
            left = forecast.seconds_left(update / updates, validations - done, by_clock=False)
            assert left is not None
            said = clock.now, left
    assert said is not None
    assert said[0] + said[1] == pytest.approx(clock.now, rel=0.05)
    assert said[1] == pytest.approx(clock.now - said[0], rel=0.2)


def test_a_budget_by_the_clock_has_its_validations_in_it(clock: Clock) -> None:
    forecast = Forecast(1000, clock)
    for _ in range(100):
        clock.now += 0.5
        forecast.updated(0.5 / 600, 1000)
    clock.now += 6
    forecast.validated()
    left = forecast.seconds_left(56 / 600, 4, by_clock=True)
    assert left == pytest.approx(600 - 56 + 6, rel=0.01)


def test_before_anything_is_known_nothing_is_said(clock: Clock) -> None:
    forecast = Forecast(1000, clock)
    forecast.updated(0.1, 10)
    assert forecast.seconds_left(0.1, 3, by_clock=False) is None
