"""dragoman quantize"""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class Quantize:
    """Write a model with int8 weights: a quarter of the size, for translating and every other verb."""

    model: Positional[Path]
    """A model directory."""
    out: Path
    """The new model directory; must not exist."""

    def run(self) -> None:
        """Quantize, and say what it saved."""
        from dragoman.models.quantization import quantize_model
        from dragoman.models.weights import WEIGHTS_FILE

        quantize_model(self.model, self.out)
        before, after = ((directory / WEIGHTS_FILE).stat().st_size / 1e6 for directory in (self.model, self.out))
        print(f"{printable(self.out)}: weights of {after:.1f} MB instead of {before:.1f} MB")
