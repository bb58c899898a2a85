"""A few numbers as one line of text."""

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float]) -> str:
    """Return the values as a line of blocks, lowest to highest; a blank where a value is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    top = len(_BLOCKS) - 1
    # Halved, so that the distance between the largest floats of both signs is still one.
    spread = (high / 2 - low / 2) or 1.0
    return "".join(
        _BLOCKS[round((value / 2 - low / 2) / spread * top)] if math.isfinite(value) else " " for value in values
    )
