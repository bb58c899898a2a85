"""Streams of random numbers for sampling. This module does not import torch."""

import hashlib
from collections.abc import Sequence

import numpy as np

# Number of positions for which random numbers are generated together.
BLOCK = 64


def uniforms(
    seed: int, key: int, number: int, length: int, start: int = 0
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return uniform random numbers in [0, 1) of the stream that (seed, key, number) identifies.

    The generator is counter-based (Philox; Salmon et al., 2011), so the streams are independent of each other.

    Args:
        seed: seed of sampling.
        key: key of the row.
        number: number of the sample.
        length: how many random numbers to return.
        start: index of the first one in the stream; a multiple of 4, since the counter generates 4 numbers together.
    """
    assert start % 4 == 0
    generator = np.random.Philox(
        key=np.array([seed, key], dtype=np.uint64),
        counter=np.array([start // 4, 0, 0, number], dtype=np.uint64),
    )
    return np.random.Generator(generator).random(length)


def random_key(ids: Sequence[int]) -> int:
    """Return the key of the random stream of a source or a prompt, 64 bits of a hash of its tokens."""
    text = ",".join(map(str, ids)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
