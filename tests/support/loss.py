"""The training's loss of a padded batch of states."""

from collections.abc import Callable

from torch import Tensor

from dragoman.packing import Layout, layout_of
from dragoman.training.loss import label_smoothed_loss


def loss_of_states(
    states: Tensor,
    weight: Tensor,
    target: Tensor,
    real: Tensor,
    smoothing: float,
    lay_out: Callable[[Tensor], Layout] = layout_of,
) -> tuple[Tensor, Tensor]:
    """The sum and the count; the states are laid out as `lay_out` says."""
    layout = lay_out(real)
    return label_smoothed_loss(layout.rows(states), layout, weight, target, smoothing)
