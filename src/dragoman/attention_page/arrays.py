"""What was captured of a model's attention: numbers with names and shapes.

Letters: N layers (steps, of a Universal Transformer) · H heads · T queries · S keys · K d_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, kw_only=True)
class Details:
    """What weights are computed from, and what is computed with them.

    query   [N, H, T, K]   as the product takes it: rotated, where positions are rotary
    key     [N, H, S, K]
    value   [N, H, S, Kv]
    output  [N, H, T, Kv]  weights x value: what each head says, before W^O mixes the heads
    bias    [N, H, T, S]   added to the scores query·key/√K, by relative positions; else None
    """

    query: Float[np.ndarray, "N H T K"]
    key: Float[np.ndarray, "N H S K"]
    value: Float[np.ndarray, "N H S Kv"]
    output: Float[np.ndarray, "N H T Kv"]
    bias: Float[np.ndarray, "N H T S"] | None = None

    @property
    def output_norm(self) -> Float[np.ndarray, "N H T"]:
        """How much each head says at each position: the Euclidean norm of its output."""
        return np.linalg.norm(self.output, axis=-1)


@dataclass(frozen=True)
class AttentionArrays:
    """One kind of attention in all layers.

    weights  [N, H, T, S]  rows sum to 1
    details  on request; a recurrent attention has none
    """

    weights: Float[np.ndarray, "N H T S"]
    details: Details | None = None


@dataclass(frozen=True, kw_only=True)
class Captured:
    """The attention for one sentence; None where the architecture has none of a kind.

    target           ids of the output, without special symbols
    encoder_self     [N, H, S, S]
    decoder_self     [N, H, T, T]  row t may look at rows 0..t
    encoder_decoder  [N, H, T, S]
    """

    target: tuple[int, ...]
    encoder_self: AttentionArrays | None
    decoder_self: AttentionArrays | None
    encoder_decoder: AttentionArrays | None
