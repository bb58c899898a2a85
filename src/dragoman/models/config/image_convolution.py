"""The settings and presets of the convolutional classifier of images."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_labels, check_probabilities, check_sizes
from dragoman.models.shapes import TensorShape, linear, within

# Number of groups of the group normalisation (Wu and He, 2018).
GROUPS = 8


@dataclass(frozen=True, kw_only=True)
class ImageConvolutionConfig:
    """Settings of a convolutional classifier of images, the baseline for the Transformer that reads images.

    Each block halves height and width of the image, and each block after the first one doubles the number of features.

    Attributes:
        image_size: height and width of the images in pixels, at least 2^blocks.
        labels: the labels, in the order of the logits.
        channels: number of numbers for each pixel: 3 for red, green and blue, or 1 for a grey value.
        blocks: number of blocks, each of two 3x3 convolutions.
        width: number of features of the first block, a multiple of 8.
        dropout: probability of dropping a feature before the linear map to the labels.

    Example:
        >>> ImageConvolutionConfig(image_size=32, labels=("cat", "dog")).d_model
        128
    """

    image_size: int
    labels: tuple[str, ...]
    channels: int = 3
    blocks: int = 3
    width: int = 32
    dropout: float = 0.1

    def __post_init__(self) -> None:
        check_sizes(self, ("image_size", "channels", "blocks", "width"))
        check_labels(self.labels)
        check_probabilities(self, ("dropout",))
        if self.image_size < 2**self.blocks:
            raise SettingsError(
                f"image_size must be at least {2**self.blocks} for {self.blocks} blocks, each of which halves it, "
                f"not {self.image_size}"
            )
        if self.width % GROUPS:
            raise SettingsError(f"width must be a multiple of {GROUPS}, not {self.width}")

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each block."""
        return tuple(self.width * 2**block for block in range(self.blocks))

    @property
    def d_model(self) -> int:
        """F, the number of features of an image."""
        return self.widths[-1]

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return (
            f"{self.blocks} blocks, {self.width} to {self.d_model} features, "
            f"images of {self.image_size} x {self.image_size}, {len(self.labels):,} labels"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        inputs = self.channels
        for i, outputs in enumerate(self.widths):
            for convolution in ("first", "second"):
                yield TensorShape(f"blocks.{i}.{convolution}.weight", (outputs, inputs, 3, 3))
                yield TensorShape(f"blocks.{i}.{convolution}_norm.weight", (outputs,))
                yield TensorShape(f"blocks.{i}.{convolution}_norm.bias", (outputs,))
                inputs = outputs
        yield from within("output", linear(len(self.labels), self.d_model, bias=True))


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"blocks": 2, "width": 16},
    # For small images, such as digits and emoji, on a laptop.
    "mini": {},
    "small": {"width": 64},
}
