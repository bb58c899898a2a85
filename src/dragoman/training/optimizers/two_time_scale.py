"""Adam for the two networks of a GAN, with a learning rate for each (Heusel et al., 2017)."""

from torch import nn

from dragoman.device import Precision
from dragoman.errors import SettingsError
from dragoman.training.optimizers.adam import adam_without
from dragoman.training.optimizers.parts import Optimizers, OptimizerSettings


def build(model: nn.Module, settings: OptimizerSettings, precision: Precision) -> Optimizers:  # noqa: ARG001
    """Return Adam for the discriminator, whose rate is multiplied by `discriminator_rate`, and Adam for the rest.

    Raises:
        SettingsError: if the model has no discriminator.
    """
    discriminator = dict(model.named_children()).get("discriminator")
    if discriminator is None:
        raise SettingsError("training.optimizer 'two-time-scale' is for models with a discriminator: use 'adam'")
    return Optimizers(
        (
            adam_without(model, set(discriminator.parameters()), settings),
            adam_without(discriminator, (), settings, name="discriminator", rate=settings.discriminator_rate),
        )
    )
