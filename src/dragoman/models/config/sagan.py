"""The settings and presets of the self-attention GAN (Zhang et al., 2019)."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dragoman.errors import SettingsError
from dragoman.models.config.checks import check_labels, check_sizes
from dragoman.models.shapes import TensorShape, within

# Size of the feature map at which the generator begins and the discriminator ends, and the sizes of pictures.
SMALLEST_MAP, PICTURE_SIZES = 4, (16, 32, 64, 128)
# The widest feature maps are wider than those of the size of the picture by this factor.
WIDEST = 4


@dataclass(frozen=True, kw_only=True)
class SaganConfig:
    """Settings of a self-attention GAN: a generator and a discriminator of residual blocks.

    Attributes:
        size: height and width of the pictures: 16, 32, 64 or 128.
        channels: 1 for grey pictures, 3 for colour.
        labels: names of the labels; empty for a model without labels.
        width: channels of the feature maps of the size of the picture; smaller maps have up to four times as many. A
            multiple of 8.
        latent: length of the random vector from which a picture is made.
        attention: height and width of the feature map with self-attention, in both networks; None for networks without
            attention.

    Example:
        >>> SaganConfig(size=32, channels=1, labels=("0", "1")).map_sizes()
        (4, 8, 16, 32)
    """

    size: int
    channels: int
    labels: tuple[str, ...] = ()
    width: int = 32
    latent: int = 128
    attention: int | None = 16

    def __post_init__(self) -> None:
        check_sizes(self, ("width", "latent"))
        if self.size not in PICTURE_SIZES:
            raise SettingsError(f"size must be one of {', '.join(map(str, PICTURE_SIZES))}, not {self.size}")
        if self.channels not in (1, 3):
            raise SettingsError(f"channels must be 1 or 3, not {self.channels}")
        if self.width % 8:
            raise SettingsError(f"width must be a multiple of 8, not {self.width}")
        check_labels(self.labels, least=0)
        if self.attention is not None and self.attention not in self.map_sizes()[1:-1]:
            sizes = ", ".join(map(str, self.map_sizes()[1:-1]))
            raise SettingsError(f"attention must be the size of a feature map ({sizes}), not {self.attention}")

    @property
    def d_model(self) -> int:
        """Channels of the widest feature maps."""
        return self.width_at(SMALLEST_MAP)

    @property
    def dropout(self) -> float:
        """0: the networks have no dropout."""
        return 0.0

    @property
    def label_rows(self) -> int:
        """Number of labels of the networks: one without labels."""
        return max(1, len(self.labels))

    def map_sizes(self) -> tuple[int, ...]:
        """Return the sizes of the feature maps, from the smallest to that of the picture."""
        return tuple(SMALLEST_MAP << i for i in range((self.size // SMALLEST_MAP).bit_length()))

    def width_at(self, size: int) -> int:
        """Return the number of channels of the feature maps of this size."""
        return self.width * min(WIDEST, self.size // size)

    def shape(self) -> str:
        """Return a short text with the sizes of the model."""
        attention = "no attention" if self.attention is None else f"attention at {self.attention}x{self.attention}"
        kind = "grey" if self.channels == 1 else "colour"
        labels = f"{len(self.labels):,} labels" if self.labels else "no labels"
        return f"{self.size}x{self.size} {kind}, width {self.width}, latent {self.latent}, {attention}, {labels}"

    def tensors(self) -> Iterator[TensorShape]:
        """Yield every tensor of the model."""
        yield from within("generator", self._generator_tensors())
        yield from within("discriminator", self._discriminator_tensors())

    def _generator_tensors(self) -> Iterator[TensorShape]:
        sizes, rows = self.map_sizes(), self.label_rows
        yield from within("start", _spectral((SMALLEST_MAP**2 * self.d_model, self.latent), bias=True))
        for i, (before, after) in enumerate(pairwise(sizes)):
            yield from within(f"blocks.{i}", _generator_block(self.width_at(before), self.width_at(after), rows))
        if self.attention is not None:
            yield from within("attention", _attention(self.width_at(self.attention)))
        yield from within("norm", _conditional_norm(self.width, rows))
        yield from within("output", _spectral((self.channels, self.width, 3, 3), bias=True))

    def _discriminator_tensors(self) -> Iterator[TensorShape]:
        sizes = self.map_sizes()[::-1]
        widths = [self.channels, *map(self.width_at, sizes[1:]), self.d_model]
        for i, (before, after) in enumerate(pairwise(widths)):
            yield from within(f"blocks.{i}", _discriminator_block(before, after))
        if self.attention is not None:
            yield from within("attention", _attention(self.width_at(self.attention)))
        yield from within("output", _spectral((1, self.d_model), bias=True))
        if self.labels:
            yield from within("labels", _spectral((len(self.labels), self.d_model), bias=False))


def _spectral(shape: tuple[int, ...], *, bias: bool) -> Iterator[TensorShape]:
    yield TensorShape("weight", shape)
    if bias:
        yield TensorShape("bias", shape[:1])
    yield TensorShape("norm.left", shape[:1])


def _conditional_norm(channels: int, rows: int) -> Iterator[TensorShape]:
    yield TensorShape("gain", (rows, channels))
    yield TensorShape("bias", (rows, channels))
    yield TensorShape("norm.running_mean", (channels,))
    yield TensorShape("norm.running_var", (channels,))
    yield TensorShape("norm.num_batches_tracked", (), integer=True)


def _attention(channels: int) -> Iterator[TensorShape]:
    yield TensorShape("gamma", ())
    for name in ("query", "key", "value"):
        yield from within(name, _spectral((channels // 8, channels), bias=False))
    yield from within("output", _spectral((channels, channels // 8), bias=False))


def _generator_block(inputs: int, outputs: int, rows: int) -> Iterator[TensorShape]:
    yield from within("first_norm", _conditional_norm(inputs, rows))
    yield from within("second_norm", _conditional_norm(outputs, rows))
    yield from within("first", _spectral((outputs, inputs, 3, 3), bias=True))
    yield from within("second", _spectral((outputs, outputs, 3, 3), bias=True))
    yield from within("skip", _spectral((outputs, inputs, 1, 1), bias=True))


def _discriminator_block(inputs: int, outputs: int) -> Iterator[TensorShape]:
    yield from within("first", _spectral((outputs, inputs, 3, 3), bias=True))
    yield from within("second", _spectral((outputs, outputs, 3, 3), bias=True))
    yield from within("skip", _spectral((outputs, inputs, 1, 1), bias=True))


# For each preset, the settings that differ from the defaults.
PRESETS: dict[str, dict[str, Any]] = {
    # For tests: trains in seconds.
    "tiny": {"width": 8, "latent": 16, "attention": 8},
    # For a laptop: digits in minutes on two cores.
    "mini": {"width": 16, "latent": 64},
    "small": {},
    "base": {"width": 64},
}
