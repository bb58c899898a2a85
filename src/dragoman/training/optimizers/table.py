"""The table of optimizers; its names are the choices of the setting training.optimizer."""

from collections.abc import Callable

from torch import nn

from dragoman.device import Precision
from dragoman.training.optimizers import adam, muon, two_time_scale
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings

OPTIMIZERS: dict[str, Callable[[nn.Module, OptimizerSettings, Precision], Optimizers]] = {
    "adam": adam.build,
    "muon": muon.build,
    "two-time-scale": two_time_scale.build,
}
