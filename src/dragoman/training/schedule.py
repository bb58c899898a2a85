"""The learning rate as a function of the step and the progress of training."""

import math
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Settings of the learning-rate schedule: a linear warm-up to a peak, followed by a decay.

    Example:
        >>> schedule = ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=0.002)
        >>> round(learning_rate(schedule, d_model=512, step=100, progress=0.55), 6)
        0.001

    Attributes:
        kind: Decay after the warm-up. "paper" decreases with 1/√step; "linear" and "cosine" reach `final_share` of the
            peak at the end of the run; "constant" does not decay.
        warmup: Length of the warm-up. A value of 1 or more is a number of updates; a value below 1 is a fraction of the
            run, which also suits a budget of minutes, where the number of updates is unknown.
        peak_learning_rate: Learning rate at the end of the warm-up. None: the paper's, (d_model · warmup)^-0.5, which
            requires kind "paper" and a warm-up in updates.
        final_share: Learning rate at the end of "linear" and "cosine", as a fraction of the peak.
    """

    kind: Literal["paper", "linear", "cosine", "constant"] = "paper"
    warmup: float = 4000
    peak_learning_rate: float | None = None
    final_share: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.warmup < math.inf or (self.warmup >= 1 and self.warmup != int(self.warmup)):
            raise SettingsError(
                f"warmup must be a whole number of updates, or a fraction of the run below 1, not {self.warmup}"
            )
        if self.kind == "paper" and self.warmup == 0:
            raise SettingsError('kind = "paper" requires a warmup above 0')
        if self.peak_learning_rate is None:
            if self.kind != "paper" or self.warmup < 1:
                raise SettingsError(
                    'give peak_learning_rate: only kind = "paper" with a warmup in updates has a default for it'
                )
        elif not 0 < self.peak_learning_rate < math.inf:
            raise SettingsError(f"peak_learning_rate must be above 0, not {self.peak_learning_rate}")
        if not 0 <= self.final_share <= 1:
            raise SettingsError(f"final_share must be in [0, 1], not {self.final_share}")


def learning_rate(config: ScheduleConfig, d_model: int, step: int, progress: float) -> float:
    """Return the learning rate of one update, which is at most the peak.

    The paper's schedule d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017, equation 3) equals
    peak · min(x, x^-0.5) with x = step / warmup and peak = (d_model · warmup)^-0.5. This form also applies to a warm-up
    that is a fraction of the run, with x = progress / warmup.

    Args:
        config: the schedule.
        d_model: width of the model; only the paper's peak depends on it.
        step: number of the update, counted from 1.
        progress: spent fraction of the budget (updates or wall-clock time), 0 to 1.
    """
    assert step >= 1, step
    assert 0 <= progress <= 1, progress
    peak = config.peak_learning_rate
    if peak is None:
        peak = (d_model * config.warmup) ** -0.5
    in_updates = config.warmup >= 1
    position = step if in_updates else progress
    if position <= config.warmup:  # if there is no warm-up, only at progress 0
        return peak * position / config.warmup if config.warmup > 0 else peak
    if config.kind == "paper":
        return peak * math.sqrt(config.warmup / position)
    if config.kind == "constant":
        return peak
    # Progress at the end of the warm-up, estimated from the average speed so far.
    warm_up_end = progress * config.warmup / step if in_updates else config.warmup
    decay_progress = (progress - warm_up_end) / (1 - warm_up_end)
    remaining = 1 - decay_progress if config.kind == "linear" else (1 + math.cos(math.pi * decay_progress)) / 2
    return peak * (config.final_share + (1 - config.final_share) * remaining)
