"""The keys and values that step-wise decoding keeps."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class KeyValueCache:
    """Keys and values of the positions so far. Immutable: the methods return a new cache.

    Attributes:
        key: [B, H, S, K], keys of S positions.
        value: [B, H, S, Kv], values of S positions.
    """

    key: Float[Tensor, "B H S K"]
    value: Float[Tensor, "B H S Kv"]

    def extended(self, key: Float[Tensor, "B H T K"], value: Float[Tensor, "B H T Kv"]) -> "KeyValueCache":
        """Return the cache with T further positions."""
        # [B, H, S, K] and [B, H, T, K] -> [B, H, S+T, K]
        return KeyValueCache(torch.cat((self.key, key), dim=2), torch.cat((self.value, value), dim=2))

    def first(self, positions: int) -> "KeyValueCache":
        """Return the cache of the first positions."""
        return KeyValueCache(self.key[:, :, :positions], self.value[:, :, :positions])

    def last(self, positions: int) -> "KeyValueCache":
        """Return the cache of at most this number of last positions."""
        start = max(0, self.key.shape[2] - positions)
        return KeyValueCache(self.key[:, :, start:], self.value[:, :, start:])

    def reorder(self, rows: Int[Tensor, " N"]) -> "KeyValueCache":
        """Keep the batch rows `rows`, which may repeat or leave rows out."""
        return KeyValueCache(self.key[rows], self.value[rows])
