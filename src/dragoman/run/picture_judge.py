"""The judge of generated pictures: a convolutional classifier of the training pictures, whose features are compared.

The usual judge, an Inception network trained on ImageNet, has to be downloaded. Distances between the features of a
classifier of the same pictures can be compared with each other only for the same pictures and the same judge, and not
with published ones.
"""

import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from dragoman.data.picture_batches import PictureStream, batches_in_order
from dragoman.data.picture_reading import PictureSet
from dragoman.device import Precision
from dragoman.images.picture_classifier import PictureClassifier
from dragoman.models.description import ModelDescription
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.registry import architecture_of, build_image_classifier, image_preset
from dragoman.models.storage import save_model
from dragoman.training.config import TrainingConfig
from dragoman.training.loop import Trainer
from dragoman.training.picture_class_objective import PictureClassObjective, predicted_classes
from dragoman.training.schedule import ScheduleConfig
from dragoman.training.validation import Validation

_logger = logging.getLogger(__name__)

# Labels of pictures without labels: by how many degrees each is turned (Gidaris et al., 2018, section 2).
ROTATIONS = ("0", "90", "180", "270")
BATCH, PEAK_RATE, SEED = 64, 0.002, 1
# A shifted picture keeps its label.
AUGMENTATIONS = ("translation",)


def open_judge(
    run: Path, training: PictureSet, validation: PictureSet, steps: int, precision: Precision
) -> PictureClassifier:
    """Load the judge of a run, or train it; a training that was interrupted is resumed.

    Args:
        run: directory of the judge: a model directory, and the checkpoints of its training.
        training: the training pictures.
        validation: the pictures that were held out.
        steps: updates of its training.
        precision: precision of its training.

    Raises:
        ModelError: if it is damaged.
        TrainingStopped: after SIGINT or SIGTERM.
    """
    training, validation = _with_labels(training), _with_labels(validation)
    config = image_preset(
        "mini",
        training.label_names,
        image_size=training.images.shape[1],
        channels=training.images.shape[3],
        architecture="image-convolution",
    )
    description = ModelDescription(architecture=architecture_of(config), model=config, trained_length=1)

    def validate(model: ImageClassifier) -> Validation:
        classes, loss = predicted_classes(model, batches_in_order(validation, BATCH))
        right = np.mean(classes.cpu().numpy() == validation.labels)
        return Validation(loss=loss, metrics={"accuracy": 100 * float(right)})

    run.mkdir(parents=True, exist_ok=True)
    if not (run / "config.json").exists():
        _logger.warning("training the classifier by which generated pictures are judged: %d updates", steps)
    with torch.random.fork_rng([]):
        torch.manual_seed(SEED)
        Trainer(
            build_image_classifier(config),
            PictureClassObjective(
                smoothing=0.0,
                augmentations=AUGMENTATIONS,
                batches=PictureStream(pictures=training, batch_size=BATCH, seed=SEED),
                validator=validate,
                metrics=("accuracy",),
            ),
            config=TrainingConfig(steps=steps, best_by="accuracy", label_smoothing=0.0, validations=1, seed=SEED),
            schedule=ScheduleConfig(kind="linear", warmup=0.1, peak_learning_rate=PEAK_RATE),
            d_model=config.d_model,
            precision=precision,
            directory=run,
            save_best=lambda weights, _step, _best: save_model(run, description, weights),
        ).run()
    return PictureClassifier.load(run, device="cpu")


def _with_labels(pictures: PictureSet) -> PictureSet:
    """Return the pictures if they have several labels, or else all of them turned by 0, 90, 180 and 270 degrees."""
    # With a single label, a classifier would learn nothing.
    if len(pictures.label_names) > 1:
        return pictures
    turned = [np.rot90(pictures.images, times, axes=(1, 2)) for times in range(len(ROTATIONS))]
    return replace(
        pictures,
        images=np.concatenate(turned),
        labels=np.repeat(np.arange(len(ROTATIONS)), len(pictures.images)),
        label_names=ROTATIONS,
        names=pictures.names * len(ROTATIONS),
    )
