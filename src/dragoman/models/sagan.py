"""The self-attention GAN (Zhang et al., "Self-Attention Generative Adversarial Networks", 2019).

The file contains, in this order: the generator, the discriminator, the pair of them, and the builder. Both networks
consist of residual blocks (Miyato et al., 2018), whose weights all have spectral norm 1.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from dragoman.layers.conditional_norm import ConditionalBatchNorm
from dragoman.layers.map_attention import MapAttention
from dragoman.layers.spectral_norm import SpectralConvolution, SpectralEmbedding, SpectralLinear
from dragoman.models.config.sagan import SMALLEST_MAP, SaganConfig


class GeneratorBlock(nn.Module):
    """A residual block that doubles height and width."""

    def __init__(self, inputs: int, outputs: int, labels: int) -> None:
        super().__init__()
        self.first_norm = ConditionalBatchNorm(inputs, labels)
        self.first = SpectralConvolution(inputs, outputs, 3)
        self.second_norm = ConditionalBatchNorm(outputs, labels)
        self.second = SpectralConvolution(outputs, outputs, 3)
        self.skip = SpectralConvolution(inputs, outputs, 1)

    def forward(self, x: Float[Tensor, "B I H W"], label: Int[Tensor, " B"]) -> Float[Tensor, "B O _ _"]:
        """Return a feature map [B, O, 2H, 2W]."""
        # [B, I, H, W] -> [B, I, 2H, 2W] -> [B, O, 2H, 2W]
        h = self.first(_doubled(F.relu(self.first_norm(x, label))))
        h = self.second(F.relu(self.second_norm(h, label)))
        # A convolution of width 1 may come before the doubling, where it is four times as fast.
        return h + _doubled(self.skip(x))


class DiscriminatorBlock(nn.Module):
    """A residual block.

    Args:
        inputs: channels of the input.
        outputs: channels of the output.
        halved: True to halve height and width.
        activated: True if the block begins with ReLU; False for the block that reads the pictures.
    """

    def __init__(self, inputs: int, outputs: int, *, halved: bool, activated: bool) -> None:
        super().__init__()
        self.first = SpectralConvolution(inputs, outputs, 3)
        self.second = SpectralConvolution(outputs, outputs, 3)
        self.skip = SpectralConvolution(inputs, outputs, 1)
        self.halved = halved
        self.activated = activated

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O _ _"]:
        """Return a feature map [B, O, H, W], or [B, O, H/2, W/2]."""
        h = self.second(F.relu(self.first(F.relu(x) if self.activated else x)))
        # [B, O, H, W] -> [B, O, H/2, W/2]; the skip comes after the pooling, where it is four times as fast
        return _halved(h) + self.skip(_halved(x)) if self.halved else h + self.skip(x)


class Generator(nn.Module):
    """Makes pictures from random vectors, by residual blocks that double height and width.

    Args:
        config: settings of the model.
    """

    blocks: Sequence[GeneratorBlock]

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        widths = [config.width_at(size) for size in config.map_sizes()]
        self.start = SpectralLinear(config.latent, SMALLEST_MAP**2 * widths[0])
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            GeneratorBlock(before, after, config.label_rows) for before, after in pairwise(widths)
        )
        self.attention, self.attended = _attention(config)
        self.norm = ConditionalBatchNorm(config.width, config.label_rows)
        self.output = SpectralConvolution(config.width, config.channels, 3)

    def forward(self, latent: Float[Tensor, "B Z"], label: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """Return pictures with values from -1 to 1.

        Args:
            latent: random vectors, normal with mean 0 and variance 1.
            label: index of the label of each picture; 0 in a model without labels.
        """
        # [B, Z] -> [B, D*4*4] -> [B, D, 4, 4]
        x = self.start(latent).unflatten(1, (-1, SMALLEST_MAP, SMALLEST_MAP))
        x = x.contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            x = block(x, label)
            if self.attention is not None and x.shape[2] == self.attended:
                x = self.attention(x)
        # [B, W, H, W] -> [B, C, H, W]
        return _wide(self.output(F.relu(self.norm(x, label)))).tanh()


class Discriminator(nn.Module):
    """Gives a score to each picture, high for those of the training data, by residual blocks that halve the size.

    With labels, the score is ψ(φ(x)) + V_label·φ(x), where φ are the features of the picture (the projection
    discriminator; Miyato and Koyama, "cGANs with Projection Discriminator", 2018, equation 4).

    Args:
        config: settings of the model.
    """

    blocks: Sequence[DiscriminatorBlock]

    def __init__(self, config: SaganConfig) -> None:
        super().__init__()
        widths = [config.channels, *(config.width_at(size) for size in config.map_sizes()[-2::-1]), config.d_model]
        self.blocks = nn.ModuleList(  # type: ignore[assignment]
            DiscriminatorBlock(before, after, halved=i < len(widths) - 2, activated=i > 0)
            for i, (before, after) in enumerate(pairwise(widths))
        )
        self.attention, self.attended = _attention(config)
        self.output = SpectralLinear(config.d_model, 1)
        self.labels = SpectralEmbedding(len(config.labels), config.d_model) if config.labels else None

    def forward(self, images: Float[Tensor, "B C H W"], label: Int[Tensor, " B"]) -> Float[Tensor, " B"]:
        """Return the scores of pictures with values from -1 to 1."""
        x = images.contiguous(memory_format=torch.channels_last)
        for block in self.blocks:
            x = block(x)
            if self.attention is not None and x.shape[2] == self.attended:
                x = self.attention(x)
        # [B, D, 4, 4] -> [B, D] -> [B, 1] -> [B]
        features = _wide(F.relu(x)).sum(dim=(2, 3))
        score = self.output(features).squeeze(1)
        if self.labels is None:
            return score
        # [B, D] · [B, D] -> [B]
        return score + (self.labels(label) * features).sum(dim=1)


class Sagan(nn.Module):
    """The two networks, which are trained against each other."""

    def __init__(self, generator: Generator, discriminator: Discriminator) -> None:
        super().__init__()
        self.generator = generator
        self.discriminator = discriminator


def build_sagan(config: SaganConfig) -> Sagan:
    """Build and initialise the model that `config` describes: orthogonal weights (Saxe et al., 2014), zero biases."""
    model = Sagan(Generator(config), Discriminator(config))
    for module in model.modules():
        if isinstance(module, SpectralLinear | SpectralConvolution | SpectralEmbedding):
            nn.init.orthogonal_(module.weight)
            bias = getattr(module, "bias", None)
            if bias is not None:
                nn.init.zeros_(bias)
    return model


def _attention(config: SaganConfig) -> tuple[MapAttention | None, int]:
    """Return the attention of a network, and the size of the feature map that it reads; None and 0 without one."""
    if config.attention is None:
        return None, 0
    return MapAttention(config.width_at(config.attention)), config.attention


def _wide(x: Tensor) -> Tensor:
    """Return `x` in float32 at least: sums and scores need more digits than bfloat16 has."""
    return x.float() if x.dtype == torch.bfloat16 else x


def _doubled(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C _ _"]:
    # [B, C, H, W] -> [B, C, 2H, 2W]
    return F.interpolate(x, scale_factor=2, mode="nearest")


def _halved(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C _ _"]:
    # [B, C, H, W] -> [B, C, H/2, W/2]
    return F.avg_pool2d(x, 2)
