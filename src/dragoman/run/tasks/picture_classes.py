"""The task classify-images: a model is trained to give a label to a picture."""

import numpy as np

from dragoman.data.picture_batches import batches_in_order
from dragoman.device import Precision
from dragoman.errors import CorpusError
from dragoman.evaluation.classification import Classification
from dragoman.models.image_classifier import ImageClassifier
from dragoman.run.picture_config import CLASSIFY
from dragoman.run.tasks.pictures import Pictures, PreparedPictures
from dragoman.training.picture_class_objective import PictureClassObjective, predicted_classes
from dragoman.training.validation import Sample, Validation

METRICS = ("accuracy", "macro_f1")


class PictureClasses(Pictures):
    """Classification of pictures."""

    name = CLASSIFY

    def check_labels(self, labels: tuple[str, ...], folder: str) -> None:
        """See `Pictures.check_labels`: there must be two labels at least."""
        if len(labels) < 2:
            raise CorpusError(
                f"{folder} must have at least two subfolders with pictures, whose names are the labels; it has "
                f"{len(labels)}"
            )

    def objective(self, pictures: PreparedPictures, precision: Precision) -> PictureClassObjective:
        """See `Pictures.objective`."""
        config, validation = pictures.config, pictures.validation
        names = np.array(validation.label_names)
        references = names[validation.labels].tolist()

        def validate(model: ImageClassifier) -> Validation:
            classes, loss = predicted_classes(model, batches_in_order(validation, config.batch_tokens))
            outputs = names[classes.cpu().numpy()].tolist()
            result = Classification.of(outputs, references)
            samples = [Sample(*sample) for sample in zip(validation.names, references, outputs, strict=True)]
            return Validation(
                loss=loss,
                metrics={"accuracy": 100 * result.accuracy, "macro_f1": 100 * result.macro_f1},
                samples=tuple(samples[:: len(samples) // 3 + 1]),
            )

        return PictureClassObjective(
            smoothing=config.training.label_smoothing,
            augmentations=config.augmentations,
            batches=pictures.stream(),
            validator=validate,
            metrics=METRICS,
        )

    def next_commands(self, model: str) -> list[str]:
        """See `Task.next_commands`."""
        return [f"dragoman images classify {model} PICTURES", f"dragoman images evaluate {model} TEST"]
