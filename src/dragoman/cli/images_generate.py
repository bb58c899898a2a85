"""dragoman images sample, attention"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import arg

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Flag, ModelDirectory
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable

Labels = Annotated[tuple[str, ...], arg(name="label", metavar="LABEL", help_behavior_hint="")]


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


@dataclass(frozen=True, kw_only=True)
class AttentionImages:
    """Show where the positions of generated pictures attend, in the generator of a GAN."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Draw the attention of four positions", "dragoman images attention models/pictures --out attention.png"
        ),
        Example(
            "Write a page that shows where any position attends",
            "dragoman images attention models/pictures --out attention.html",
        ),
    )

    model: ModelDirectory
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write: page.html, picture.png or picture.svg."""
    count: Count = 6
    """Number of pictures."""
    point: Annotated[tuple[str, ...], arg(metavar="ROW,COLUMN", help_behavior_hint="")] = ()
    """Position of the feature map whose attention a picture shows, from 0,0 at the top left; may be repeated. Default:
    four positions around the centre. The page shows any position."""
    label: Labels = ()
    """Label of the pictures; may be repeated. By default all labels in turn."""
    seed: Count = 1
    """Random seed; the same seed gives the same pictures."""
    device: Device = "auto"

    def run(self) -> None:
        """Write the page or the picture."""
        from dragoman.files import write_atomically
        from dragoman.images.picture_generator import PictureGenerator
        from dragoman.picture_page.attention_figure import draw_attention
        from dragoman.picture_page.data import LayerAttention, PictureAttention
        from dragoman.picture_page.page import build_picture_page

        form = self.out.suffix.removeprefix(".")
        if form not in ("html", "png", "svg"):
            raise SettingsError(f"{printable(self.out)}: choose a name that ends in .html, .png or .svg")
        if self.count < 1:
            raise SettingsError(f"--count must be at least 1, not {self.count}")
        points = [_point(text) for text in self.point]
        generator = PictureGenerator.load(self.model, device=self.device)
        labels = _repeated(self.label, self.count, 1)
        attending = generator.attend(self.count, seed=self.seed, labels=labels)
        indices = generator.label_indices(self.count, labels).tolist()
        names = [generator.config.labels[i] for i in indices] if generator.config.labels else None
        size = attending.weights.shape[1]
        # [N, h, w, h, w] -> [N, h*w, h*w]
        weights = attending.weights.reshape(self.count, size * size, size * size)
        if form == "html":
            name = f"generator, {size}x{size}"
            shown = [
                PictureAttention(
                    picture=picture,
                    label=names[i] if names else f"picture {i + 1}",
                    # [Q, S] -> [1, Q, S]: a single head
                    layers=(LayerAttention(name=name, weights=of[None], grid=(size, size), key_grid=(size, size)),),
                )
                for i, (picture, of) in enumerate(zip(attending.pictures, weights, strict=True))
            ]
            data = build_picture_page(shown, title="Where generated pictures attend").encode()
        else:
            near, far = size // 4, size - 1 - size // 4
            points = points or [(near, near), (near, far), (far, near), (far, far)]
            data = draw_attention(
                attending.pictures,
                weights,
                [points] * self.count,
                "png" if form == "png" else "svg",
                grid=(size, size),
                titles=names,
            )
        with written_to(self.out):
            write_atomically(self.out, data)
        print(f"{printable(self.out)}: γ = {attending.gamma:.3f}")


def _point(text: str) -> tuple[int, int]:
    """Return a position given as "ROW,COLUMN".

    Raises:
        SettingsError: if the text has another form.
    """
    row, _, column = text.partition(",")
    if not (row.strip().isdecimal() and column.strip().isdecimal()):
        raise SettingsError(f"--point must be ROW,COLUMN, such as 3,7, not {text!r}")
    return int(row), int(column)


def _repeated(labels: tuple[str, ...], count: int, columns: int) -> list[str] | None:
    """Return a label for each of `count` pictures, one label for each row; None without labels."""
    return [labels[(i // columns) % len(labels)] for i in range(count)] if labels else None
