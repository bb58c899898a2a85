"""Moving windows of a minute."""

import math

from dragoman.serving.access.moving_window import MovingWindows


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_requests_leave_the_window_one_by_one() -> None:
    clock = Clock()
    windows = MovingWindows(now=clock)
    for _ in range(3):
        assert windows.admit("a", 1, max_requests=3, max_characters=100) == 0
        clock.seconds += 10
    assert windows.admit("a", 1, max_requests=3, max_characters=100) == 30
    assert windows.admit("b", 1, max_requests=3, max_characters=100) == 0
    clock.seconds += 30
    assert windows.admit("a", 1, max_requests=3, max_characters=100) == 0
    assert windows.admit("a", 1, max_requests=3, max_characters=100) == 10


def test_characters_are_limited_too_and_refused_requests_do_not_count() -> None:
    clock = Clock()
    windows = MovingWindows(now=clock)
    assert windows.admit("a", 60, max_requests=100, max_characters=100) == 0
    clock.seconds += 5
    assert windows.admit("a", 30, max_requests=100, max_characters=100) == 0
    assert windows.admit("a", 30, max_requests=100, max_characters=100) == 55
    assert windows.admit("a", 80, max_requests=100, max_characters=100) == 60
    assert windows.admit("a", 10, max_requests=100, max_characters=100) == 0
    assert windows.admit("a", 101, max_requests=100, max_characters=100) == math.inf


def test_clients_without_requests_in_the_last_minute_are_forgotten() -> None:
    clock = Clock()
    windows = MovingWindows(now=clock)
    for number in range(1000):
        windows.admit(f"client {number}", 1, max_requests=1, max_characters=1)
        clock.seconds += 1
    assert len(windows) == 60


def test_the_number_of_clients_is_limited() -> None:
    windows = MovingWindows(max_clients=100, now=Clock())
    for number in range(1000):
        assert windows.admit(f"client {number}", 1, max_requests=1, max_characters=1) == 0
    assert len(windows) == 100
    assert windows.admit("client 999", 1, max_requests=1, max_characters=1) > 0
