"""dragoman images train, sample, attention, classify"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import tyro
from tyro.conf import Positional, arg

from dragoman.cli.choices import one_of, picture_architectures, picture_presets
from dragoman.cli.examples import Example
from dragoman.cli.images_attention import AttentionImages
from dragoman.cli.options import (
    Count,
    Device,
    Flag,
    Labels,
    ModelDirectory,
    OptionalCount,
    OptionalFile,
    OutDirectory,
    RunFileOptions,
)
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable

# Names of the tasks on the command line, and in run files.
_TASKS = {"generate": "images", "classify": "classify-images"}


@dataclass(frozen=True, kw_only=True)
class TrainImages:
    """Train a model that makes pictures like those of a folder, or one that gives labels to pictures."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Learn to make pictures like those of a folder, in twenty minutes",
            "dragoman images train pictures --out models/pictures --minutes 20",
        ),
        Example(
            "Learn to tell apart the subfolders of a folder",
            "dragoman images train pictures --task classify --out models/classes --minutes 5",
        ),
    )

    folder: Annotated[Positional[str], arg(metavar="FOLDER")]
    """Folder of pictures (PNG, JPEG, GIF, WebP, BMP, TIFF). If it has subfolders, their names are labels."""
    out: OutDirectory
    """Model directory to write. Repeat the command to resume an interrupted run."""
    task: Annotated[str, one_of(_TASKS)] = "generate"
    """generate: a self-attention GAN, which makes pictures; classify: a model that gives labels to pictures."""
    model: Annotated[str | None, one_of(picture_architectures()), arg(help_behavior_hint="")] = None
    """Architecture; sagan to generate, and by default vision (a vision Transformer) to classify."""
    validation: Annotated[str | None, arg(metavar="FOLDER", help_behavior_hint="")] = None
    """Folder of pictures to validate on; by default a share of the pictures is held out."""
    size: OptionalCount = None
    """Height and width of the pictures, 32 by default; 16, 32, 64 or 128 to generate."""
    grey: Flag = False
    """Convert the pictures to grey."""
    minutes: Annotated[float | None, arg(metavar="MINUTES", help_behavior_hint="")] = None
    """Training time. By default training ends by number of updates."""
    preset: Annotated[str | None, one_of(picture_presets()), arg(help_behavior_hint="")] = None
    """Size of the model; mini by default."""
    run_file: RunFileOptions = RunFileOptions()

    def settings(self) -> dict[str, Any]:
        """Return the settings of the run file, overridden by the options, overridden by --set."""
        from dragoman.cli.run_file import read_run_file, with_minutes
        from dragoman.settings import apply_overrides, merge

        options = {"task": _TASKS[self.task], "architecture": self.model, "preset": self.preset}
        settings = read_run_file(self.run_file.config, options)
        data = {"size": self.size, "channels": 1 if self.grey else None}
        given = {key: value for key, value in data.items() if value is not None}
        # A value that is not a table is reported when the settings are read.
        if given and isinstance(settings.get("data", {}), dict):
            settings = merge(settings, {"data": given})
        return apply_overrides(with_minutes(settings, self.minutes), self.run_file.set_)

    def run(self) -> None:
        """Train, then print the result and the next commands."""
        from dragoman.cli.training import train_and_report

        train_and_report([self.folder], self.out, self.validation, self.settings())


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
class ClassifyImages:
    """Give labels to pictures; those in subfolders named after the labels are also counted as right or wrong."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example("Print the label of each picture of a folder", "dragoman images classify models/classes pictures"),
        Example(
            "Draw what the model looks at", "dragoman images classify models/classes pictures --rollout rollout.png"
        ),
    )

    model: ModelDirectory
    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of pictures."""
    rollout: OptionalFile = None
    """PNG or SVG file: the first pictures with the attention rollout (Abnar and Zuidema, 2020) of the class token."""
    count: Count = 12
    """Number of pictures in that file."""
    skip: Flag = False
    """Leave out pictures that cannot be read, instead of stopping."""
    device: Device = "auto"

    def run(self) -> None:
        """Print the labels, and the share of them that is right."""
        from dragoman.data.picture_reading import read_pictures
        from dragoman.files import write_atomically
        from dragoman.images.picture_classifier import PictureClassifier
        from dragoman.picture_page.attention_figure import draw_heat_maps

        form = "png" if self.rollout is None else self.rollout.suffix.removeprefix(".")
        if form not in ("png", "svg"):
            raise SettingsError(f"{printable(self.rollout)}: choose a name that ends in .png or .svg")
        classifier = PictureClassifier.load(self.model, device=self.device)
        pictures = read_pictures(
            self.folder,
            classifier.config.image_size,
            channels=1 if classifier.config.channels == 1 else 3,
            broken="skip" if self.skip else "refuse",
            animated="first frame",
        )
        if pictures.report.skipped:
            print(pictures.report.table(), file=sys.stderr)
        labelled = classifier.classify(pictures.images)
        for name, (label, probability) in zip(pictures.names, labelled, strict=True):
            print(f"{printable(name)}\t{printable(label)}\t{probability:.3f}")
        if pictures.labels is not None and set(pictures.label_names) <= set(classifier.config.labels):
            references = [pictures.label_names[i] for i in pictures.labels.tolist()]
            right = sum(label == reference for (label, _), reference in zip(labelled, references, strict=True))
            print(f"{right:,} of {len(labelled):,} right ({right / len(labelled):.1%})", file=sys.stderr)
        if self.rollout is not None:
            shown = slice(0, self.count)
            data = draw_heat_maps(
                pictures.images[shown],
                classifier.rollout(pictures.images[shown]),
                [label for label, _ in labelled[shown]],
                [probability for _, probability in labelled[shown]],
                "png" if form == "png" else "svg",
            )
            with written_to(self.rollout):
                write_atomically(self.rollout, data)


def _repeated(labels: tuple[str, ...], count: int, columns: int) -> list[str] | None:
    """Return a label for each of `count` pictures, one label for each row; None without labels."""
    return [labels[(i // columns) % len(labels)] for i in range(count)] if labels else None


ACTIONS: dict[str, type[TrainImages | SampleImages | AttentionImages | ClassifyImages]] = {
    "train": TrainImages,
    "sample": SampleImages,
    "attention": AttentionImages,
    "classify": ClassifyImages,
}


@dataclass(frozen=True, kw_only=True)
class Images:
    """Make pictures with a self-attention GAN, recognise them with a Transformer, and see what both attend to."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (*TrainImages.EXAMPLES[:1], *SampleImages.EXAMPLES[:1])

    action: (
        Annotated[TrainImages, tyro.conf.subcommand("train")]
        | Annotated[SampleImages, tyro.conf.subcommand("sample")]
        | Annotated[AttentionImages, tyro.conf.subcommand("attention")]
        | Annotated[ClassifyImages, tyro.conf.subcommand("classify")]
    )

    def run(self) -> None:
        """Run the action."""
        self.action.run()
