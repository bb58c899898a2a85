"""dragoman positions"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Number, OptionalFile
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.models.config.checks import POSITION_BASE, check_position_base, check_size
from dragoman.printing import printable

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

# Largest number of positions times features: more numbers are of no use to a reader, and fill memory.
LARGEST_TABLE = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Positions:
    """Print the matrix of sinusoidal positions, one row for each position, or draw it."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Print the example of a lecture", "dragoman positions --length 4 --d-model 4 --base 100"),
        Example("Draw the matrix", "dragoman positions --length 128 --d-model 128 --out positions.png"),
    )

    length: Count = 16
    """Number of positions, which count from 0."""
    d_model: Count = 8
    """Number of features; even."""
    base: Number = POSITION_BASE
    """n in sin(pos / n^(2i/d_model)) and cos(pos / n^(2i/d_model)): the setting model.position_base."""
    out: OptionalFile = None
    """Draw the matrix to this file (.png or .svg) instead of printing it."""

    def run(self) -> None:
        """Print or draw the matrix."""
        if self.out is not None:
            _check_suffix(self.out)
        table = self._table()
        if self.out is not None:
            self._draw(table, self.out)
            return
        for row in table.tolist():
            # "0.0 +" turns -0.0, to which a small number may be rounded, into 0.0.
            print(" ".join(f"{0.0 + round(value, 6):9.6f}" for value in row))

    def _table(self) -> NDArray[np.float32]:
        for name, value in (("length", self.length), ("d_model", self.d_model)):
            check_size(f"--{name.replace('_', '-')}", value)
        if self.d_model % 2:
            raise SettingsError(f"--d-model must be even, not {self.d_model}")
        if self.length * self.d_model > LARGEST_TABLE:
            raise SettingsError(
                f"--length {self.length} times --d-model {self.d_model} are more than {LARGEST_TABLE:,} numbers: "
                "use smaller ones"
            )
        try:
            check_position_base(self.base, "sinusoidal")
        except SettingsError as error:
            raise SettingsError(f"--base: {error}") from None
        from dragoman.layers.positions import sinusoidal_table

        table: NDArray[np.float32] = sinusoidal_table(self.length, self.d_model, base=self.base).numpy()
        return table

    def _draw(self, table: NDArray[np.float32], out: Path) -> None:
        from dragoman.attention_page.map import PICTURES
        from dragoman.attention_page.plots import draw_positions
        from dragoman.files import write_atomically

        picture = draw_positions(table, PICTURES[out.suffix], title=f"sinusoidal positions, base {self.base:,g}")
        with written_to(out):
            write_atomically(out, picture)
        print(printable(out))


def _check_suffix(out: Path) -> None:
    from dragoman.attention_page.map import PICTURES

    if out.suffix not in PICTURES:
        raise SettingsError(f"{out}: choose a name that ends in {', '.join(PICTURES)}")
