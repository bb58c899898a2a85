"""Settings of the [training] table."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from dragoman.errors import SettingsError
from dragoman.training import metrics
from dragoman.training.optimizers.table import OPTIMIZERS


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Settings of training.

    Exactly one of `steps` and `minutes` must be given. Sections and equations refer to "Attention Is All You Need".

    Example:
        >>> config = TrainingConfig(minutes=5, optimizer="muon", ema_decay=0.99)
        >>> config.best_by
        'bleu'

    Attributes:
        steps: Budget as a number of updates.
        minutes: Budget as wall-clock time.
        seed: Seed of the initial weights, dropout, the order of batches, and subword sampling.
        accumulate: Batches per update.
        label_smoothing: ε_ls (section 5.4), at least 0 and below 1.
        optimizer: "adam", as in the paper, or "muon": Muon for the matrices of the layers and Adam for all other
            parameters. An update of Muon takes longer and improves the model more. "two-time-scale" is for GANs: Adam
            with another learning rate for the discriminator.
        matrix_rate: Learning rate of Muon as a multiple of the scheduled learning rate.
        discriminator_rate: Learning rate of the discriminator of a GAN as a multiple of the scheduled learning rate.
        adam_betas: β₁ and β₂ of Adam (section 5.3).
        adam_epsilon: ε of Adam (section 5.3).
        weight_decay: Decoupled weight decay, as in AdamW; 0 in the paper.
        clip_norm: Largest norm of the gradient; larger gradients are scaled down to it. 0 disables clipping.
        precision: "fp32", "bf16", or "auto": bf16 if the device multiplies it in hardware, otherwise fp32.
        compile: "on", "off", or "auto": compile the model on a GPU only.
        device: "auto", "cpu", "cuda", or "cuda:N".
        deterministic: On a GPU, use deterministic algorithms only, which are slower. Training on a CPU is always
            deterministic.
        subword_sampling: α of subword regularisation; 0 disables it.
        source_loss: λ, the weight of the loss of each token of the source, which a decoder-only model can predict as
            well (the auxiliary objective of Radford et al. 2018, equation 5); the loss of a target token has weight 1.
            0: the target only.
        validations: Number of validations, at regular intervals over the budget.
        best_by: Metric that determines the best model and early stopping, one of `training.metrics.choices()`. Use
            "exact_match" for symbols (pronunciations, sums), where an output is either right or wrong as a whole.
        patience: Consecutive validations without an improvement after which training stops; 0 disables early stopping.
        average_last: At the end, also validate the mean of the weights at this many last validations, and use it if it
            is better; 0 disables this.
        ema_decay: Validate and save an exponential moving average of the weights with this decay, at least 0 and
            below 1; 0 disables it.
        tensorboard: Also write events for TensorBoard.
    """

    steps: int | None = None
    minutes: float | None = None
    seed: int = 1
    accumulate: int = 1
    label_smoothing: float = 0.1
    optimizer: str = "adam"
    matrix_rate: float = 1.5
    discriminator_rate: float = 4.0
    adam_betas: tuple[float, float] = (0.9, 0.98)
    adam_epsilon: float = 1e-9
    weight_decay: float = 0.0
    clip_norm: float = 1.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: Literal["auto", "on", "off"] = "auto"
    device: str = "auto"
    deterministic: bool = False
    subword_sampling: float = 0.0
    source_loss: float = 0.0
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
            raise SettingsError("give a budget: exactly one of steps and minutes")
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
        for name in ("weight_decay", "clip_norm", "subword_sampling", "source_loss", "patience", "average_last"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative, but is {getattr(self, name)}")
        for name in ("matrix_rate", "discriminator_rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise SettingsError(f"{name} must be above 0, not {getattr(self, name)}")
        if not all(0 <= beta < 1 for beta in self.adam_betas):
            raise SettingsError(f"adam_betas must be in [0, 1), not {self.adam_betas}")


def _check_choice(name: str, value: str, choices: Collection[str]) -> None:
    if value not in choices:
        raise SettingsError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
