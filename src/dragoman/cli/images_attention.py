"""dragoman images attention"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from tyro.conf import arg

from dragoman.cli.choices import one_of
from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Labels, ModelDirectory, OptionalCount, changed_options
from dragoman.cli.writing import written_to
from dragoman.errors import ModelError, SettingsError
from dragoman.printing import printable

if TYPE_CHECKING:
    from dragoman.data.picture_reading import PictureSet
    from dragoman.images.picture_classifier import LabelledPicture
    from dragoman.images.picture_generator import AttendingPictures, Network
    from dragoman.models.config.vision import VisionConfig
    from dragoman.picture_page.data import PictureAttention


@dataclass(frozen=True, kw_only=True)
class GeneratedOptions:
    """Choose the pictures that a GAN makes (without --pictures)."""

    label: Labels = ()
    """Label of the pictures; may be repeated. By default all labels in turn."""
    seed: Count = 1
    """Random seed; the same seed gives the same pictures."""


@dataclass(frozen=True, kw_only=True)
class FigureOptions:
    """Choose what a figure shows (--out attention.png or .svg); a page shows everything."""

    network: Annotated[str | None, one_of(("generator", "discriminator")), arg(help_behavior_hint="")] = None
    """Network of a GAN; by default the generator, or the discriminator with --pictures."""
    layer: OptionalCount = None
    """Layer of a vision Transformer, from 1; the last one by default."""
    head: OptionalCount = None
    """Head of that layer, from 1; the mean of all heads by default."""
    point: Annotated[tuple[str, ...], arg(metavar="ROW,COLUMN", help_behavior_hint="")] = ()
    """Position whose attention is shown, from 0,0 at the top left; may be repeated. Default: in a GAN, four positions
    around the centre; in a vision Transformer, the class token."""


@dataclass(frozen=True, kw_only=True)
class _Shown:
    """Pictures with attention; predicted labels of a classifier; text to print after the name of the file."""

    pictures: list[PictureAttention]
    labelled: list[LabelledPicture] | None = None
    remark: str = ""


@dataclass(frozen=True, kw_only=True)
class AttentionImages:
    """Show where the positions of pictures attend, in both networks of a GAN or in a vision Transformer."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Write a page that shows where any position attends in both networks of a GAN",
            "dragoman images attention models/pictures --out attention.html",
        ),
        Example(
            "Draw where the class token of a vision Transformer attends",
            "dragoman images attention models/classes --pictures pictures --out attention.png",
        ),
    )

    model: ModelDirectory
    out: Annotated[Path, arg(metavar="FILE")]
    """File to write: page.html, figure.png or figure.svg."""
    pictures: Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """Folder of pictures that a vision Transformer, or the discriminator of a GAN, reads. By default, a GAN makes the
    pictures; a vision Transformer requires the folder."""
    count: Count = 6
    """Largest number of pictures; those of a folder are chosen at equal steps, so that their labels differ."""
    device: Device = "auto"
    generated: GeneratedOptions = GeneratedOptions()
    figure: FigureOptions = FigureOptions()

    def run(self) -> None:
        """Write the page or the figure."""
        from dragoman.files import write_atomically
        from dragoman.models.config.image_convolution import ImageConvolutionConfig
        from dragoman.models.config.sagan import SaganConfig
        from dragoman.models.config.vision import VisionConfig
        from dragoman.models.description import load_description
        from dragoman.picture_page.page import build_picture_page

        if self.out.suffix not in (".html", ".png", ".svg"):
            raise SettingsError(f"{printable(self.out)}: choose a name that ends in .html, .png or .svg")
        if self.count < 1:
            raise SettingsError(f"--count must be at least 1, not {self.count}")
        if self._is_page:
            _refuse(changed_options(self.figure), "chooses what a figure (.png or .svg) shows: a page shows everything")
        if self.pictures is not None:
            _refuse(changed_options(self.generated), "is for pictures that a GAN makes: leave it or --pictures out")
        points = [_point(text) for text in self.figure.point]
        description = load_description(self.model)
        if isinstance(description.model, SaganConfig):
            shown = self._of_gan()
        elif isinstance(description.model, VisionConfig):
            shown = self._of_vision(description.model)
        elif isinstance(description.model, ImageConvolutionConfig):
            raise SettingsError(f"{self.model} has no attention: it is a convolutional network")
        else:
            raise ModelError(f"{self.model} is a model of text, not of pictures: use dragoman attention")
        if self._is_page:
            data = build_picture_page(shown.pictures, title="Where pictures attend").encode()
        else:
            data = self._draw(shown, points, "png" if self.out.suffix == ".png" else "svg")
        with written_to(self.out):
            write_atomically(self.out, data)
        print(printable(self.out) + shown.remark)

    @property
    def _is_page(self) -> bool:
        return self.out.suffix == ".html"

    def _of_gan(self) -> _Shown:
        from dragoman.images.picture_generator import PictureGenerator
        from dragoman.images.picture_layers import attention_of_gan

        for option in ("layer", "head"):
            if getattr(self.figure, option) is not None:
                raise SettingsError(
                    f"--{option} is for a vision Transformer: a network of a GAN has one layer, one head"
                )
        if self.pictures is not None and self.figure.network == "generator":
            raise SettingsError("the generator reads no pictures: use --network discriminator, or leave --pictures out")
        gan = PictureGenerator.load(self.model, device=self.device)
        network = self.figure.network or ("generator" if self.pictures is None else "discriminator")
        both = self._is_page and self.pictures is None
        weights = (2 if both else 1) * gan.map_size() ** 4
        attending: dict[Network, AttendingPictures] = {}
        if self.pictures is not None:
            read = self._read(self.pictures, gan.config.size, gan.config.channels, weights)
            pictures, names = read.images, list(read.names)
        else:
            self._check_amount(self.count, weights)
            labels = list(islice(cycle(self.generated.label), self.count)) or None
            if network == "generator":
                attending["generator"] = gan.attend(self.count, seed=self.generated.seed, labels=labels)
                pictures = attending["generator"].pictures
            else:
                pictures = gan.sample(self.count, seed=self.generated.seed, labels=labels)
            indices = gan.label_indices(self.count, labels).tolist()
            names = [gan.config.labels[i] for i in indices] if gan.config.labels else _numbers(self.count)
        if both or network == "discriminator":
            attending["discriminator"] = gan.attend_to(pictures)
        gammas = ", ".join(f"γ = {of.gamma:.3f} ({name})" for name, of in attending.items())
        return _Shown(pictures=attention_of_gan(attending, names), remark=f": {gammas}")

    def _of_vision(self, config: VisionConfig) -> _Shown:
        from dragoman.images.picture_classifier import PictureClassifier
        from dragoman.images.picture_layers import attention_of_vision

        _refuse(changed_options(self.generated), "is for a GAN: a vision Transformer makes no pictures")
        if self.figure.network is not None:
            raise SettingsError("--network is for a GAN: a vision Transformer is one network")
        if self.pictures is None:
            raise SettingsError("a vision Transformer attends to given pictures: add --pictures FOLDER")
        for option, number, count in (
            ("layer", self.figure.layer, config.layers),
            ("head", self.figure.head, config.heads),
        ):
            if number is not None and not 1 <= number <= count:
                raise SettingsError(f"--{option} must be at least 1 and at most {count}, not {number}")
        classifier = PictureClassifier.load(self.model, device=self.device)
        weights = config.layers * config.heads * config.patches**2
        read = self._read(self.pictures, config.image_size, config.channels, weights)
        labelled = classifier.classify(read.images)
        names = [
            f"{label} ({probability:.0%}), {name}"
            for (label, probability), name in zip(labelled, read.names, strict=True)
        ]
        shown = attention_of_vision(read.images, classifier.attend(read.images), names)
        return _Shown(pictures=shown, labelled=labelled)

    def _read(self, folder: Path, size: int, channels: int, weights: int) -> PictureSet:
        """Return the chosen pictures of the folder; `weights` is the number of attention weights of each."""
        from dragoman.cli.picture_folder import read_folder

        pictures = read_folder(folder, size, channels, skip=False).spread(self.count)
        self._check_amount(len(pictures), weights)
        return pictures

    def _check_amount(self, pictures: int, weights: int) -> None:
        """Refuse more pictures, each with this number of weights, than the file shows, before computing anything."""
        from dragoman.picture_page.attention_figure import check_number
        from dragoman.picture_page.page import check_page_size

        if self._is_page:
            check_page_size(pictures, pictures * weights)
        else:
            check_number(pictures)

    def _draw(self, shown: _Shown, points: list[tuple[int, int]], form: Literal["png", "svg"]) -> bytes:
        import numpy as np

        from dragoman.picture_page.attention_figure import draw_attention, draw_heat_maps

        layers = [picture.layers[self.figure.layer - 1 if self.figure.layer else -1] for picture in shown.pictures]
        heads = slice(None) if self.figure.head is None else slice(self.figure.head - 1, self.figure.head)
        pictures = np.stack([picture.picture for picture in shown.pictures])
        grid = layers[0].grid
        if shown.labelled is not None and not points:
            tokens = [layer.class_token for layer in layers if layer.class_token is not None]
            # N x [H, S] -> N x [h, w]
            maps = np.stack([token[heads].mean(axis=0).reshape(grid) for token in tokens])
            labels, probabilities = zip(*shown.labelled, strict=True)
            return draw_heat_maps(pictures, maps, labels, probabilities, form)
        near, far = grid[0] // 4, grid[0] - 1 - grid[0] // 4
        points = points or [(near, near), (near, far), (far, near), (far, far)]
        return draw_attention(
            pictures,
            # N x [H, Q, S] -> [N, Q, S]
            np.stack([layer.weights[heads].mean(axis=0) for layer in layers]),
            [points] * len(pictures),
            form,
            grid=grid,
            titles=[picture.label for picture in shown.pictures],
        )


def _refuse(options: list[str], reason: str) -> None:
    """Raise SettingsError if there are options that do not apply."""
    if options:
        raise SettingsError(f"{options[0]} {reason}")


def _numbers(count: int) -> list[str]:
    return [f"picture {number}" for number in range(1, count + 1)]


def _point(text: str) -> tuple[int, int]:
    """Return a position given as "ROW,COLUMN".

    Raises:
        SettingsError: if the text has another form.
    """
    row, _, column = text.partition(",")
    if not (row.strip().isdecimal() and column.strip().isdecimal()):
        raise SettingsError(f"--point must be ROW,COLUMN, such as 3,7, not {text!r}")
    return int(row), int(column)
