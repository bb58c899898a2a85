"""The one table of optimizers: training.optimizer takes its names."""

from collections.abc import Callable

from torch import nn

from dragoman.device import Precision
from dragoman.training.optimizers import adam, muon
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings

OPTIMIZERS: dict[str, Callable[[nn.Module, OptimizerSettings, Precision], Optimizers]] = {
    "adam": adam.build,
    "muon": muon.build,
}
