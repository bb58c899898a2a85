"""dragoman images classify"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.options import Count, Device, Flag, ModelDirectory, OptionalFile
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable


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
    """PNG or SVG file: pictures, taken at equal steps from the folder, with the attention rollout (Abnar and Zuidema,
    2020) of the class token."""
    count: Count = 12
    """Number of pictures in that file."""
    skip: Flag = False
    """Leave out pictures that cannot be read, instead of stopping."""
    device: Device = "auto"

    def run(self) -> None:
        """Print the labels, and the share of them that is right."""
        from dragoman.cli.picture_folder import read_folder
        from dragoman.files import write_atomically
        from dragoman.images.picture_classifier import PictureClassifier
        from dragoman.picture_page.attention_figure import draw_heat_maps

        form = "png" if self.rollout is None else self.rollout.suffix.removeprefix(".")
        if form not in ("png", "svg"):
            raise SettingsError(f"{printable(self.rollout)}: choose a name that ends in .png or .svg")
        classifier = PictureClassifier.load(self.model, device=self.device)
        config = classifier.config
        pictures = read_folder(self.folder, config.image_size, config.channels, skip=self.skip)
        labelled = classifier.classify(pictures.images)
        for name, (label, probability) in zip(pictures.names, labelled, strict=True):
            print(f"{printable(name)}\t{printable(label)}\t{probability:.3f}")
        if pictures.labels is not None and set(pictures.label_names) <= set(classifier.config.labels):
            references = [pictures.label_names[i] for i in pictures.labels.tolist()]
            right = sum(label == reference for (label, _), reference in zip(labelled, references, strict=True))
            print(f"{right:,} of {len(labelled):,} right ({right / len(labelled):.1%})", file=sys.stderr)
        if self.rollout is not None:
            shown = pictures.spread(self.count)
            of_shown = classifier.classify(shown.images)
            data = draw_heat_maps(
                shown.images,
                classifier.rollout(shown.images),
                [label for label, _ in of_shown],
                [probability for _, probability in of_shown],
                "png" if form == "png" else "svg",
            )
            with written_to(self.rollout):
                write_atomically(self.rollout, data)
