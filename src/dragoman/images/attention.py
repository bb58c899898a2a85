"""Where the positions of a feature map attend, in a generator or in a discriminator."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

from dragoman.attention import AttentionMask, naive_attention
from dragoman.layers.map_attention import MapAttention

Array = npt.NDArray[np.float32]


@contextmanager
def recorded_maps(attention: MapAttention) -> Iterator[list[Array]]:
    """Yield a list to which every use of the attention inside the block appends its weights.

    The weights are those of `naive_attention`, [B, H*W, H*W] in float32: a row for each position that attends.
    """
    weights: list[Array] = []

    def record(_: object, inputs: tuple[Tensor, Tensor, Tensor, AttentionMask]) -> None:
        weights.append(_weights(*inputs[:3], scale=attention.core.scale))

    handle = attention.core.register_forward_pre_hook(record)
    try:
        yield weights
    finally:
        handle.remove()


def _weights(
    query: Float[Tensor, "B 1 S K"], key: Float[Tensor, "B 1 S K"], value: Float[Tensor, "B 1 S K"], scale: float | None
) -> Array:
    _, weights = naive_attention(query.float(), key.float(), value.float(), scale=scale)
    # [B, 1, S, S] -> [B, S, S]
    array: Array = weights.squeeze(1).detach().cpu().numpy()
    return array
