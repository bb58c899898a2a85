"""The interface of models that give a label to an image.

Letters: B number of images, C channels, H height, W width, F number of features, L number of labels.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn

from dragoman.errors import CorpusError, ModelError
from dragoman.layers.dropout import Dropout
from dragoman.models.initialisation import normal
from dragoman.models.seq2seq import AttentionModules

# Standard deviation of the initial weights of the linear map to the labels.
INITIAL_STD = 0.02


def check_image_shape(images: Float[Tensor, "B C H W"], *, size: int, channels: int) -> None:
    """Check the size of the images that a model reads.

    Args:
        images: the images.
        size: height and width of the images of the model.
        channels: their number of channels.

    Raises:
        CorpusError: the images have another size or number of channels than those of the model.
    """
    _, found, height, width = images.shape
    if (found, height, width) != (channels, size, size):
        raise CorpusError(
            f"expected images of {size} x {size} with {channels} channels, "
            f"found {height} x {width} with {found}: scale the images to the size of the model"
        )


class ImageClassifier(nn.Module, ABC):
    """Base class of models that compute features of an image, and a linear map from features to labels.

    Images are numbers from -1 to 1. They have the size and the number of channels of the settings.

    Args:
        image_size: height and width of the images in pixels.
        channels: C, the number of numbers for each pixel.
        width: F, the number of features.
        labels: L, the number of labels; 0 for a model that has features only.
        dropout: probability of dropping a feature before the linear map.

    Example:
        >>> import torch
        >>> from dragoman.models.registry import build_image_classifier, image_preset
        >>> model = build_image_classifier(image_preset("tiny", ("cat", "dog"), image_size=32)).eval()
        >>> model(torch.zeros(4, 3, 32, 32)).shape
        torch.Size([4, 2])
    """

    def __init__(self, *, image_size: int, channels: int, width: int, labels: int, dropout: float) -> None:
        super().__init__()
        self.image_size = image_size
        self.channels = channels
        self.width = width
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(width, labels) if labels else None
        if self.output is not None:
            normal(self.output, INITIAL_STD)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L"]:
        """Return the logits of the labels.

        Args:
            images: numbers from -1 to 1.

        Raises:
            CorpusError: the images have another size or number of channels than those of the model.
            ModelError: the model has no labels.
        """
        if self.output is None:
            raise ModelError("the model has no labels: it gives features of images only")
        # [B, C, H, W] -> [B, F] -> [B, L]
        return self.output(self.dropout(self.features(images)))

    @abstractmethod
    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B F"]:
        """Return the features from which a linear map predicts the labels.

        Args:
            images: numbers from -1 to 1.

        Raises:
            CorpusError: the images have another size or number of channels than those of the model.
        """

    def check_images(self, images: Float[Tensor, "B C H W"]) -> None:
        """Check the size of the images.

        Raises:
            CorpusError: the images have another size or number of channels than those of the model.
        """
        check_image_shape(images, size=self.image_size, channels=self.channels)

    def attentions(self) -> AttentionModules:
        """Return the modules that compute the attention weights; by default, none."""
        return AttentionModules()

    def layers_to_compile(self) -> Iterable[nn.Module]:
        """Return the layers that torch.compile makes faster on a GPU; by default, none."""
        return ()
