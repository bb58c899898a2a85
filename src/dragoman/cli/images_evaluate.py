"""dragoman images evaluate"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from dragoman.cli.examples import Example
from dragoman.cli.label_report import check_confusion_file, report_labels
from dragoman.cli.options import Count, Device, Flag, ModelDirectory, OptionalFile, OptionalModel, changed_options
from dragoman.cli.writing import written_to
from dragoman.errors import SettingsError
from dragoman.printing import printable

OptionalFolder = Annotated[Path | None, arg(metavar="FOLDER", help_behavior_hint="")]
# Side of the square, in pixels of the file, that represents a pixel of a picture in --neighbours.
SCALE = 2


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """Evaluate a GAN."""

    pictures: Count = 1000
    """Number of pictures to generate."""
    seed: Count = 1
    """Random seed; the same seed gives the same pictures."""
    judge: OptionalModel = None
    """Classifier of such pictures whose features are compared; by default run/judge of the model."""
    training: OptionalFolder = None
    """Folder of the training pictures: test whether generated pictures are copies of them."""
    neighbours: OptionalFile = None
    """PNG file: generated pictures beside the nearest training pictures, by pixels (requires --training)."""


@dataclass(frozen=True, kw_only=True)
class ClassifierOptions:
    """Evaluate a classifier."""

    confusion: OptionalFile = None
    """Draw the confusion of labels to this file (.png or .svg)."""


@dataclass(frozen=True, kw_only=True)
class EvaluateImages:
    """Measure a GAN (distances to real pictures, precision, recall, copies) or a classifier of pictures (accuracy)."""

    EXAMPLES: ClassVar[tuple[Example, ...]] = (
        Example(
            "Compare generated pictures with real ones, and look for copies",
            "dragoman images evaluate models/digits corpora/mnist-5k/test --training corpora/mnist-5k/train",
        ),
        Example("Measure a classifier", "dragoman images evaluate models/classes corpora/mnist-5k/test"),
    )

    model: ModelDirectory
    test: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of pictures that were not trained on; for a classifier, in subfolders named after their labels."""
    generator: GeneratorOptions = GeneratorOptions()
    classifier: ClassifierOptions = ClassifierOptions()
    skip: Flag = False
    """Leave out pictures that cannot be read, instead of stopping."""
    json: Flag = False
    """Print JSON instead of a table."""
    device: Device = "auto"

    def run(self) -> None:
        """Measure the model and print the metrics."""
        from dragoman.models.description import load_description
        from dragoman.models.registry import kind_of

        kind = kind_of(load_description(self.model).model)
        if kind == "gan":
            self._refuse(self.classifier, "a GAN")
            self._evaluate_generator()
        elif kind == "image-classifier":
            self._refuse(self.generator, "a classifier of pictures")
            self._evaluate_classifier()
        else:
            raise SettingsError(f"{printable(self.model)} is not a model of pictures: use dragoman evaluate")

    def _refuse(self, options: object, kind: str) -> None:
        if changed := changed_options(options):
            raise SettingsError(f"{', '.join(changed)}: not available for {kind}, and {printable(self.model)} is one")

    def _evaluate_generator(self) -> None:
        """Generate pictures, and print their scores."""
        from rich.console import Console

        from dragoman.cli.picture_folder import read_folder
        from dragoman.images.evaluation import evaluate_generator, judge_of, neighbours_by_pixels
        from dragoman.images.picture_classifier import PictureClassifier
        from dragoman.images.picture_generator import PictureGenerator
        from dragoman.picture_page.grid import neighbour_grid
        from dragoman.picture_page.pixels import save_png

        options = self.generator
        if options.neighbours is not None:
            if options.training is None:
                raise SettingsError("--neighbours requires --training")
            if options.neighbours.suffix != ".png":
                raise SettingsError(f"{printable(options.neighbours)}: pictures are written as .png only")
        generator = PictureGenerator.load(self.model, device=self.device)
        judge_directory = judge_of(self.model) if options.judge is None else options.judge
        judge = PictureClassifier.load(judge_directory, device=self.device)
        config = generator.config
        test = read_folder(self.test, config.size, config.channels, skip=self.skip)
        training = None
        if options.training is not None:
            training = read_folder(options.training, config.size, config.channels, skip=self.skip)
        with Console(stderr=True).status(f"comparing {options.pictures:,} generated with {len(test):,} real pictures"):
            made = evaluate_generator(
                generator,
                judge,
                test,
                count=options.pictures,
                seed=options.seed,
                features=f"the classifier {printable(judge_directory)}",
                training=training,
            )
        if options.neighbours is not None and training is not None:
            shown, indices, distances = neighbours_by_pixels(made.pictures, training.images)
            with written_to(options.neighbours):
                save_png(neighbour_grid(shown, training.images, indices, distances, scale=SCALE), options.neighbours)
        if self.json:
            print(json.dumps(made.scores.to_json()))
            return
        print(made.scores.table())
        print(
            "The distances can be compared with those by the same classifier only, not with published Fréchet "
            "distances (FID), whose features are those of an Inception network"
        )

    def _evaluate_classifier(self) -> None:
        """Give labels to the pictures, and print the metrics."""
        from dragoman.cli.picture_folder import read_folder
        from dragoman.images.evaluation import evaluate_classifier
        from dragoman.images.picture_classifier import PictureClassifier

        check_confusion_file(self.classifier.confusion)
        classifier = PictureClassifier.load(self.model, device=self.device)
        config = classifier.config
        test = read_folder(self.test, config.image_size, config.channels, skip=self.skip, labels=config.labels)
        report_labels(
            evaluate_classifier(classifier, test),
            further={},
            independent=True,
            of=(len(test), "pictures"),
            test=self.test,
            confusion=self.classifier.confusion,
            json_output=self.json,
        )
