"""The training objective of classifiers of pictures: cross-entropy of the labels."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from dragoman.data.picture_batches import PictureBatch, to_unit
from dragoman.models.image_classifier import ImageClassifier
from dragoman.training.augmentation import augment
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.picture_losses import PictureLosses
from dragoman.training.validation import Validation


@dataclass(frozen=True, kw_only=True)
class PictureClassLosses(PictureLosses):
    """Loss of batches of pictures with labels.

    Attributes:
        smoothing: ε of label smoothing.
        augmentations: names of augmentations of the pictures in training, see `training.augmentation`.
    """

    smoothing: float
    augmentations: Sequence[str] = ()

    def loss(self, model: ImageClassifier, batch: PictureBatch) -> BatchLoss:
        """Return the cross-entropy of the labels, summed."""
        assert batch.labels is not None
        images = augment(to_unit(batch.images), self.augmentations)
        loss = F.cross_entropy(model(images).float(), batch.labels, reduction="sum", label_smoothing=self.smoothing)
        return BatchLoss(loss, loss.new_zeros(()))


@dataclass(frozen=True, kw_only=True)
class PictureClassObjective(PictureClassLosses):
    """Training objective of classifiers of pictures.

    Attributes:
        batches: the training batches.
        validator: validates a model.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: 0, since a validation generates no tokens.
    """

    batches: Batches[PictureBatch]
    validator: Callable[[ImageClassifier], Validation]
    metrics: Sequence[str]
    validation_tokens: int = 0

    def validate(self, model: ImageClassifier) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


@torch.inference_mode()
def predicted_classes(model: ImageClassifier, batches: Iterable[PictureBatch]) -> tuple[Tensor, float]:
    """Return the most probable label [N] of each picture, and the mean cross-entropy in nats.

    The model is in evaluation mode.
    """
    device = next(model.parameters()).device
    predicted, total = [], torch.zeros((), dtype=torch.float64, device=device)
    for batch in (batch.to(device) for batch in batches):
        assert batch.labels is not None
        logits = model(to_unit(batch.images)).float()
        total += F.cross_entropy(logits, batch.labels, reduction="sum")
        predicted.append(logits.argmax(dim=1))
    classes = torch.cat(predicted)
    return classes, float(total) / len(classes)
