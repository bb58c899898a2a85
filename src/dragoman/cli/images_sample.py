"""dragoman images sample"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import arg

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Flag, Labels, ModelDirectory
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable


@dataclass(frozen=True, kw_only=True)
class SampleImages:
    """Make pictures with a trained GAN."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Make a grid of pictures", "dragoman images sample models/pictures --out grid.png"),
        Example(
            "Show how pictures change from one to another",
            "dragoman images sample models/pictures --interpolate --out rows.png",
        ),
    )

    model: ModelDirectory
    out: Annotated[Path, arg(metavar="FILE")]
    """PNG file to write."""
    count: Count = 64
    """Number of pictures, or of rows with --interpolate."""
    columns: Count = 8
    """Pictures in a row."""
    label: Labels = ()
    """Label of the pictures; may be repeated, for one row each. By default all labels in turn."""
    scale: Count = 2
    """Side of the square, in pixels of the file, that represents a pixel of a picture."""
    interpolate: Flag = False
    """Rows of pictures whose random vectors go from one to another."""
    seed: Count = 1
    """Random seed; the same seed gives the same pictures."""
    device: Device = "auto"

    def run(self) -> None:
        """Write the grid."""
        from dragoman.images.picture_generator import PictureGenerator
        from dragoman.picture_page.grid import picture_grid
        from dragoman.picture_page.pixels import save_png

        for name, value, least in (("count", self.count, 1), ("columns", self.columns, 2 if self.interpolate else 1)):
            if value < least:
                raise SettingsError(f"--{name} must be at least {least}, not {value}")
        if self.out.suffix != ".png":
            raise SettingsError(f"{printable(self.out)}: pictures are written as .png only")
        generator = PictureGenerator.load(self.model, device=self.device)
        if self.interpolate:
            labels = _repeated(self.label, self.count, 1)
            pictures = generator.interpolate(self.count, self.columns, seed=self.seed, labels=labels)
        else:
            labels = _repeated(self.label, self.count, self.columns)
            pictures = generator.sample(self.count, seed=self.seed, labels=labels)
        with written_to(self.out):
            save_png(picture_grid(pictures, self.columns, scale=self.scale), self.out)
        print(printable(self.out))


def _repeated(labels: tuple[str, ...], count: int, columns: int) -> list[str] | None:
    """Return a label for each of `count` pictures, one label for each row; None without labels."""
    return [labels[(i // columns) % len(labels)] for i in range(count)] if labels else None
