"""The embeddings of position and step of the Universal Transformer."""

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.layers.positions import SinusoidalPositions, sinusoidal_table


class CoordinateEmbeddings(nn.Module):
    """Add the embeddings of position and step to the states, before each application of a shared block.

    P^t[i, 2j]   = sin(i / n^(2j/d)) + sin(t / n^(2j/d))
    P^t[i, 2j+1] = cos(i / n^(2j/d)) + cos(t / n^(2j/d))

    Source: Dehghani et al. (2018), section 2.1, where n = 10,000. Steps t count from 1 to T, as in the paper; positions
    i count from 0, as everywhere in this project.

    Args:
        d_model: d, width of the states.
        steps: T, the largest number of steps.
        base: n.
    """

    steps: Tensor

    def __init__(self, d_model: int, steps: int, base: float = 10_000.0) -> None:
        super().__init__()
        self.sinusoidal = SinusoidalPositions(d_model, base)
        self.register_buffer("steps", sinusoidal_table(steps + 1, d_model, base=base), persistent=False)

    def positions(self, x: Float[Tensor, "B T D"], offset: int) -> Float[Tensor, "B T D"]:
        """Return the embeddings of the positions offset, offset + 1, ..., in the shape of `x`."""
        # [1, T, D] -> [B, T, D]
        return self.sinusoidal(self.steps.new_zeros(1, *x.shape[1:]), offset).expand_as(x)

    def forward(
        self, state: Float[Tensor, "*BT D"], positions: Float[Tensor, "*BT D"], step: int
    ) -> Float[Tensor, "*BT D"]:
        """Return H + P^t.

        Args:
            state: H, the states before the step.
            positions: from `positions`, in the layout of `state`.
            step: t, from 1.
        """
        return (state + (positions + self.steps[step])).to(state.dtype)
