"""How long a run will still take."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

# Of an update, in the time before the first validation has been measured: reading and translating a token takes
# about three times what training on it does.
_VALIDATION_TOKEN = 3.0
# The first updates compile and fill caches: they say nothing of the others.
_WARM_UP = 5


@dataclass
class Forecast:
    """Time left, from the pace of the updates and of the validations in this process.

    validation_tokens   tokens that a validation writes
    clock               in seconds
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

    def updated(self, progress: float, tokens: int) -> None:
        """After an update that moved the run on by `progress`, a share of its budget."""
        self._updates += 1
        now = self.clock()
        if self._updates > _WARM_UP:
            self._seconds += now - self._last
            self._progress += progress
            self._tokens += tokens
        self._last = now

    def validated(self) -> None:
        """After a validation (and the checkpoint that goes with it)."""
        now = self.clock()
        self._validations += 1
        self._validation_seconds += now - self._last
        self._last = now

    def seconds_left(self, progress: float, validations_left: int, *, by_clock: bool) -> float | None:
        """Seconds until the run ends; None when too little is known yet.

        By the clock, validations are part of the budget, but for the last.
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
