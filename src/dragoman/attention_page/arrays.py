"""Captured attention of a model, as NumPy arrays.

Letters: N layers (or steps of a Universal Transformer), H heads, T queries, S keys, K d_k.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, kw_only=True)
class AttentionDetails:
    """Inputs and outputs of the attention of every head.

    Attributes:
        scale: factor of the products query·key in the attention scores, 1/√K in most models.
        query: [N, H, T, K], queries; after rotation if positions are rotary.
        key: [N, H, S, K], keys; after rotation if positions are rotary.
        value: [N, H, S, Kv], values.
        output: [N, H, T, Kv], weights x value: the output of each head, before W^O combines the heads.
        bias: [N, H, T, S], added to the attention scores scale·query·key by relative positions; otherwise None.
    """

    scale: float
    query: Float[np.ndarray, "N H T K"]
    key: Float[np.ndarray, "N H S K"]
    value: Float[np.ndarray, "N H S Kv"]
    output: Float[np.ndarray, "N H T Kv"]
    bias: Float[np.ndarray, "N H T S"] | None = None

    @property
    def output_norm(self) -> Float[np.ndarray, "N H T"]:
        """Euclidean norm of each head's output at each position."""
        return np.linalg.norm(self.output, axis=-1)


@dataclass(frozen=True)
class AttentionArrays:
    """One kind of attention in all layers.

    Attributes:
        weights: [N, H, T, S], attention weights; each row sums to 1.
        details: queries, keys, values and outputs, if they were requested; always None for a recurrent model.
    """

    weights: Float[np.ndarray, "N H T S"]
    details: AttentionDetails | None = None


@dataclass(frozen=True, kw_only=True)
class CapturedAttention:
    """Captured attention for one sentence.

    Attributes:
        target: token ids of the output, without special symbols.
        encoder_self: encoder self-attention, weights [N, H, S, S]; None if the architecture has none.
        decoder_self: decoder self-attention, weights [N, H, T, T], where row t may attend to columns 0..t; or None.
        encoder_decoder: encoder-decoder attention, weights [N, H, T, S]; or None.
    """

    target: tuple[int, ...]
    encoder_self: AttentionArrays | None
    decoder_self: AttentionArrays | None
    encoder_decoder: AttentionArrays | None
