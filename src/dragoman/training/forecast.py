"""Estimate of the remaining time of a run."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Time of a validation per token, as a multiple of the time of an update per token: the estimate until a validation has
# been measured.
_VALIDATION_TOKEN = 3.0
# The first updates compile kernels and fill caches, so they are not representative and are not measured.
_WARM_UP = 5


@dataclass
class Forecast:
    """Estimates the remaining time from the speed of the updates and validations in this process.

    Attributes:
        validation_tokens: tokens that a validation generates.
        clock: returns the time in seconds.
    """

    validation_tokens: int
    clock: Callable[[], float] = time.monotonic
    _updates: int = 0
    _seconds: float = 0.0
    _progress: float = 0.0
    _tokens: int = 0
    _validations: int = 0
    _validation_seconds: float = 0.0
    _last: float = field(init=False)

    def __post_init__(self) -> None:
        self._last = self.clock()

    def record_update(self, progress: float, tokens: int) -> None:
        """Record an update, immediately after it.

        Args:
            progress: fraction of the budget that the update spent.
            tokens: target tokens of the update.
        """
        self._updates += 1
        now = self.clock()
        if self._updates > _WARM_UP:
            self._seconds += now - self._last
            self._progress += progress
            self._tokens += tokens
        self._last = now

    def record_validation(self) -> None:
        """Record a validation, immediately after it and the checkpoint that follows it."""
        now = self.clock()
        self._validations += 1
        self._validation_seconds += now - self._last
        self._last = now

    def seconds_left(self, progress: float, validations_left: int, *, by_clock: bool) -> float | None:
        """Return the estimated seconds until the run ends; None if too few updates have been measured.

        Args:
            progress: spent fraction of the budget, 0 to 1.
            validations_left: number of remaining validations.
            by_clock: the budget is wall-clock time, which includes all validations except the last.
        """
        if self._progress <= 0 or self._tokens == 0:
            return None
        if self._validations:
            validation = self._validation_seconds / self._validations
        else:
            validation = _VALIDATION_TOKEN * self.validation_tokens * self._seconds / self._tokens
        if by_clock:
            return (1 - progress) * self._seconds / self._progress + validation
        return (1 - progress) * self._seconds / self._progress + validations_left * validation
