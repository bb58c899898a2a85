"""The learning rate as a pure function of where training stands."""

import math
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """How the learning rate rises and falls.

    kind                 after the warm-up: "paper" falls with 1/√step, "linear" and "cosine" reach
                         final_share of the peak at the end of the run, "constant" stays
    warmup               the linear rise: 1 or more counts updates, less than 1 is a share of the run,
                         which also suits a wall-clock budget, where nobody knows the number of updates
    peak_learning_rate   at the end of the warm-up; None is the paper's own, (d_model · warmup)^-0.5,
                         for the paper's kind with a warm-up in updates
    final_share          where "linear" and "cosine" end, as a share of the peak
    """

    kind: Literal["paper", "linear", "cosine", "constant"] = "paper"
    warmup: float = 4000
    peak_learning_rate: float | None = None
    final_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < math.inf or (self.warmup >= 1 and self.warmup != int(self.warmup)):
            raise SettingsError(
                f"warmup must be a whole number of updates, or a share of the run below 1, not {self.warmup}"
            )
        if self.kind == "paper" and self.warmup == 0:
            raise SettingsError('kind = "paper" needs a warmup above 0')
        if self.peak_learning_rate is None:
            if self.kind != "paper" or self.warmup < 1:
                raise SettingsError(
                    'give peak_learning_rate: only kind = "paper" with a warmup in updates has one of its own'
                )
        elif not 0 < self.peak_learning_rate < math.inf:
            raise SettingsError(f"peak_learning_rate must be above 0, not {self.peak_learning_rate}")
        if not 0 <= self.final_share <= 1:
            raise SettingsError(f"final_share must be in [0, 1], not {self.final_share}")


def learning_rate(config: ScheduleConfig, d_model: int, step: int, progress: float) -> float:
    """The learning rate of one update.

    The paper's (Vaswani et al. 2017, equation 3), d_model^-0.5 · min(step^-0.5, step · warmup^-1.5), is
    peak · min(x, x^-0.5) with x = step / warmup and peak = (d_model · warmup)^-0.5. In that form it also
    serves for a warm-up that is a share of the run: x = progress / warmup.

    Args:
        config: the schedule
        d_model: the model's width; only the paper's own peak depends on it
        step: the update, counted from 1
        progress: the share of the run that is spent, 0 to 1, by updates or by wall clock

    Returns:
        the learning rate, at most the peak
    """
    assert step >= 1, step
    assert 0 <= progress <= 1, progress
    peak = config.peak_learning_rate
    if peak is None:
        peak = (d_model * config.warmup) ** -0.5
    in_updates = config.warmup >= 1
    position = step if in_updates else progress
    if position <= config.warmup:  # without a warm-up, this is progress 0
        return peak * position / config.warmup if config.warmup > 0 else peak
    if config.kind == "paper":
        return peak * math.sqrt(config.warmup / position)
    if config.kind == "constant":
        return peak
    # Where in the run the warm-up ended, as far as the pace so far tells.
    warm = progress * config.warmup / step if in_updates else config.warmup
    decayed = (progress - warm) / (1 - warm)
    left = 1 - decayed if config.kind == "linear" else (1 + math.cos(math.pi * decayed)) / 2
    return peak * (config.final_share + (1 - config.final_share) * left)
