"""The training loss of a padded batch of states."""

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
    """Return the sum of the loss and the number of tokens; `lay_out` makes the layout of the states."""
    layout = lay_out(real)
    return label_smoothed_loss(layout.rows(states), layout, weight, target, smoothing)
