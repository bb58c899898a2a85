"""The settings and presets of the Transformer that reads images (Dosovitskiy et al., 2020)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_labels, check_sizes
from dragoman.models.config.layers import LayerConfig
from dragoman.models.shapes import TensorShape, linear, within

# Largest number of patches of an image: the time of attention grows with its square, whatever the size of the weights.
MOST_PATCHES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class VisionConfig(LayerConfig):
    """Settings of a Transformer encoder of images with a linear map from the state of the class token to labels.

    An image is read as a sequence: a class token, and then its patches, row by row. The settings of the layers are
    those of `LayerConfig`, with the choices of the paper as defaults: pre-norm, GELU, learned positions and biases.

    Attributes:
        image_size: height and width of the images in pixels, a multiple of `patch`.
        labels: the labels, in the order of the logits; none for a model without the linear map, which gives features.
        patch: height and width of a patch in pixels.
        channels: number of numbers for each pixel: 3 for red, green and blue, or 1 for a grey value.
        layers: number of layers.
        norm: "layer" or "rms".
        positions: "learned"; "relative" (by distance in the sequence); "rotary" (by position in the sequence); "none".
        max_positions: number of positions, one for the class token and one for each patch; it follows from the sizes.

    Example:
        >>> config = VisionConfig(image_size=32, labels=("cat", "dog"))
        >>> config.patches, config.max_positions
        (64, 65)
    """

    image_size: int
    labels: tuple[str, ...]
    patch: int = 4
    channels: int = 3
    layers: int = 6
    d_model: int = 192
    heads: int = 3
    d_ff: int = 768
    norm_placement: Literal["post", "pre"] = "pre"
    norm: Literal["layer", "rms"] = "layer"
    activation: Literal["relu", "gelu", "gelu_tanh", "geglu", "swiglu"] = "gelu"
    positions: Literal["learned", "relative", "rotary", "none"] = "learned"
    max_positions: int = field(init=False)
    attention_bias: bool = True

    def __post_init__(self) -> None:
        check_sizes(self, ("image_size", "patch", "channels", "layers"))
        check_labels(self.labels, least=0)
        if self.image_size % self.patch:
            raise SettingsError(
                f"image_size must be a multiple of patch, but {self.image_size} is not a multiple of {self.patch}"
            )
        if self.patches > MOST_PATCHES:
            raise SettingsError(
                f"an image has at most {MOST_PATCHES:,} patches, not {self.patches:,}: use a larger patch"
            )
        object.__setattr__(self, "max_positions", 1 + self.patches)
        super().__post_init__()

    @property
    def grid(self) -> int:
        """Number of patches in a row, and in a column."""
        return self.image_size // self.patch

    @property
    def patches(self) -> int:
        """N, the number of patches of an image."""
        return self.grid**2

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        return (
            f"{self.layers} layers, d_model {self.d_model}, {self.heads} heads, d_ff {self.d_ff}, "
            f"images of {self.image_size} x {self.image_size} in patches of {self.patch} x {self.patch}, "
            f"{len(self.labels):,} labels"
        )

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        pixels = self.channels * self.patch**2
        yield from within("embedding.patches.projection", linear(self.d_model, pixels, bias=True))
        yield TensorShape("embedding.class_token", (self.d_model,))
        yield from within("embedding.positions", self.position_tensors())
        for i in range(self.layers):
            yield from within(f"encoder.layers.{i}", self.layer_tensors(future=True))
        yield from within("encoder.final_norm", self.final_norm())
        if self.labels:
            yield from within("output", linear(len(self.labels), self.d_model, bias=True))


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests and first experiments.
    "tiny": {"layers": 2, "d_model": 64, "heads": 4, "d_ff": 256},
    # For small images, such as digits and emoji, on a laptop.
    "mini": {"layers": 6, "d_model": 128, "heads": 4, "d_ff": 512},
    # ViT-B/16 (Dosovitskiy et al. 2020, table 1); 86.6 M parameters for 1,000 labels of images of 224 x 224.
    "base": {"patch": 16, "layers": 12, "d_model": 768, "heads": 12, "d_ff": 3072},
}
