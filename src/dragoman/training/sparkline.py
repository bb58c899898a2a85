"""Sparklines: a sequence of numbers as one line of text."""

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Return the values as a line of block characters; values that are not finite become spaces.

    Example:
        >>> sparkline([1, 4, 8])
        '▁▄█'
    """
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top = len(_BLOCKS) - 1
    # Halved, so that the difference between the largest and the smallest float does not overflow.
    spread = (high / 2 - low / 2) or 1.0
    return "".join(
        _BLOCKS[round((value / 2 - low / 2) / spread * top)] if math.isfinite(value) else " " for value in values
    )
