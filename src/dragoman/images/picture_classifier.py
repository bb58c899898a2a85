"""`PictureClassifier`: give labels to pictures, and show what a vision Transformer looks at."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from dragoman.device import select_device
from dragoman.errors import SettingsError
from dragoman.images.picture_generator import Pictures, unit_batches
from dragoman.inspection.capture import capture_images
from dragoman.inspection.rollout import image_rollout
from dragoman.models.config import ImageClassifierConfig
from dragoman.models.description import image_classifier_config, load_description
from dragoman.models.image_classifier import ImageClassifier
from dragoman.models.inference import inference
from dragoman.models.storage import load_image_classifier
from dragoman.models.vision import VisionTransformer


class LabelledPicture(NamedTuple):
    """The most probable label of a picture.

    Attributes:
        label: the label.
        probability: its probability.
    """

    label: str
    probability: float


class PictureClassifier:
    """Gives a label to each picture, with one model.

    `PictureClassifier.load` reads a model directory.

    Args:
        model: the model, which stays on its device; it is in evaluation mode only while it runs.
        config: settings of the model.
    """

    def __init__(self, model: ImageClassifier, config: ImageClassifierConfig) -> None:
        self.model = model
        self.config = config

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> Self:
        """Load the classifier of a model directory, as `dragoman images train --task classify` writes it.

        Args:
            directory: the model directory.
            device: a torch device ("cpu", "cuda:1"), or "auto": the first GPU if there is one, else the CPU.

        Raises:
            ModelError: if the directory is not that of a classifier of pictures, or is damaged.
            SettingsError: if the device is not available.
        """
        path = Path(directory)
        selected = select_device(device)
        return cls(load_image_classifier(path).to(selected), image_classifier_config(load_description(path), path))

    def classify(self, pictures: Pictures) -> list[LabelledPicture]:
        """Return the most probable label of each of the pictures [N, H, W, C].

        Raises:
            CorpusError: the pictures have another size or number of channels than those of the model.
        """
        with inference([self.model]):
            # [B, L] -> [N, L]
            probabilities = torch.cat([self.model(images).float().softmax(dim=1) for images in self._batches(pictures)])
        best, labels = probabilities.max(dim=1)
        names = self.config.labels
        return [
            LabelledPicture(names[label], probability)
            for label, probability in zip(labels.tolist(), best.tolist(), strict=True)
        ]

    def features(self, pictures: Pictures) -> Float64[np.ndarray, "N F"]:
        """Return the features from which the labels of the pictures [N, H, W, C] are predicted.

        Raises:
            CorpusError: as in `classify`.
        """
        with inference([self.model]):
            # [B, F] -> [N, F]
            features = torch.cat([self.model.features(images) for images in self._batches(pictures)])
        return features.double().cpu().numpy()

    def rollout(self, pictures: Pictures) -> Float[np.ndarray, "N h w"]:
        """Return how much of the class token comes from each patch of the pictures [N, H, W, C]; see `image_rollout`.

        Raises:
            SettingsError: if the model has no attention.
            CorpusError: as in `classify`.
        """
        model = self.vision_transformer()
        return np.concatenate([image_rollout(model, images) for images in self._batches(pictures)])

    def attend(self, pictures: Pictures) -> Float[np.ndarray, "N L H T T"]:
        """Return the attention weights of every layer and head while the model reads the pictures [N, H, W, C].

        Position 0 is the class token, and the others are the patches, row by row. Each row of the last axis sums to 1.

        Raises:
            SettingsError: if the model has no attention.
            CorpusError: as in `classify`.
        """
        model = self.vision_transformer()
        captured = [picture for images in self._batches(pictures) for picture in capture_images(model, images)]
        arrays = [picture.encoder_self for picture in captured]
        # N x [L, H, T, T] -> [N, L, H, T, T]
        return np.stack([attention.weights for attention in arrays if attention is not None])

    def vision_transformer(self) -> VisionTransformer:
        """Return the model.

        Raises:
            SettingsError: if the model has no attention.
        """
        if not isinstance(self.model, VisionTransformer):
            raise SettingsError("the model has no attention: it is a convolutional network")
        return self.model

    def _batches(self, pictures: Pictures) -> Iterator[Float[Tensor, "B C H W"]]:
        return unit_batches(pictures, next(self.model.parameters()).device)
