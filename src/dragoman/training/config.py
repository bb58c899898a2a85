"""What a run file says about training."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError
from dragoman.training import metrics
from dragoman.training.optimizers.table import OPTIMIZERS


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train.

    steps, minutes       the budget: updates, or wall-clock time; exactly one
    seed                 of weights, dropout, order of batches, subword sampling
    accumulate           batches per update
    label_smoothing      ε_ls (section 5.4)
    optimizer            "adam", as in the paper, or "muon" for the matrices of the layers and Adam for the rest:
                         its updates cost more and bring more; see `training.optimizers.table`
    matrix_rate          Muon's learning rate as a multiple of the schedule's
    adam_betas, adam_epsilon   section 5.3
    weight_decay         decoupled, as in AdamW; 0 as in the paper
    clip_norm            gradients above this norm are scaled down to it; 0 is off
    precision            "auto" takes bf16 where the device multiplies it in hardware
    compile              "auto" compiles the model for a GPU, where it pays
    device               "auto", "cpu", "cuda", "cuda:N"
    deterministic        on a GPU, take only algorithms that give the same bits again (slower; a CPU always does)
    subword_sampling     α of subword regularisation; 0 is off
    validations          how many, evenly over the budget
    best_by              the metric that decides the best model, and early stopping: see `training.metrics`;
                         "exact_match" for symbols (pronunciations, sums), where an output is right as a whole or wrong
    patience             validations without a better figure before training stops; 0 is never
    average_last         at the end, try the mean of the weights at this many last validations; 0 is off
    ema_decay            validate and keep an exponential moving average of the weights; 0 is off
    tensorboard          also write events for TensorBoard
    """

    steps: int | None = None
    minutes: float | None = None
    seed: int = 1
    accumulate: int = 1
    label_smoothing: float = 0.1
    optimizer: str = "adam"
    matrix_rate: float = 1.5
    adam_betas: tuple[float, float] = (0.9, 0.98)
    adam_epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    device: str = "auto"
    deterministic: bool = False
    subword_sampling: float = 0.0
    validations: int = 10
    best_by: str = "bleu"
    patience: int = 0
    average_last: int = 0
    ema_decay: float = 0.0
    tensorboard: bool = False

    def __post_init__(self) -> None:
        _check_choice("optimizer", self.optimizer, OPTIMIZERS)
        _check_choice("best_by", self.best_by, metrics.choices())
        if (self.steps is None) == (self.minutes is None):
            raise SettingsError("give a budget: either steps or minutes, not both")
        if self.steps is not None and self.steps < 1:
            raise SettingsError(f"steps must be at least 1, not {self.steps}")
        if self.minutes is not None and not self.minutes > 0:
            raise SettingsError(f"minutes must be above 0, not {self.minutes}")
        for name in ("accumulate", "validations"):
            if getattr(self, name) < 1:
                raise SettingsError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("label_smoothing", "ema_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"{name} must be in [0, 1), not {getattr(self, name)}")
        for name in ("weight_decay", "clip_norm", "subword_sampling", "patience", "average_last"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative, but is {getattr(self, name)}")
        if not 0 < self.matrix_rate < math.inf:
            raise SettingsError(f"matrix_rate must be above 0, not {self.matrix_rate}")
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise SettingsError(f"adam_betas must be in [0, 1), not {self.adam_betas}")


def _check_choice(name: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise SettingsError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
