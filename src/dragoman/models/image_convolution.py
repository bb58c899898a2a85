"""A small convolutional classifier of images: a baseline, and features for the comparison of generated images.

Letters: B number of images, C channels, H height, W width, F number of features.
"""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from dragoman.models.config.image_convolution import GROUPS, ImageConvolutionConfig
from dragoman.models.image_classifier import ImageClassifier


class ConvolutionBlock(nn.Module):
    """Two 3x3 convolutions, each followed by group normalisation (Wu and He, 2018) and ReLU; the second has stride 2.

    The statistics of group normalisation are those of one image, so that the result for an image does not depend on
    the others of its batch, in training and in evaluation.

    Args:
        inputs: number of features of the input.
        outputs: number of features of the output.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.first_norm = nn.GroupNorm(GROUPS, outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, stride=2, padding=1, bias=False)
        self.second_norm = nn.GroupNorm(GROUPS, outputs)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B Fo Ho Wo"]:
        """Return features of half the height and width, rounded up."""
        # [B, C, H, W] -> [B, Fo, H, W]
        x = F.relu(self.first_norm(self.first(x)))
        # [B, Fo, H, W] -> [B, Fo, H/2, W/2]
        return F.relu(self.second_norm(self.second(x)))


class ImageConvolution(ImageClassifier):
    """Blocks of convolutions, the mean over all pixels (Lin et al., "Network in Network", 2013), and a linear map.

    Args:
        blocks: the blocks.
        image_size: height and width of the images in pixels.
        labels: L, the number of labels.
        dropout: probability of dropping a feature before the linear map.
    """

    def __init__(self, blocks: list[ConvolutionBlock], *, image_size: int, labels: int, dropout: float) -> None:
        channels, width = blocks[0].first.in_channels, blocks[-1].second.out_channels
        super().__init__(image_size=image_size, channels=channels, width=width, labels=labels, dropout=dropout)
        self.blocks = nn.ModuleList(blocks)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B F"]:
        """See `ImageClassifier.features`."""
        self.check_images(images)
        x = images
        for block in self.blocks:
            # [B, C, H, W] -> [B, F, H/2, W/2]
            x = block(x)
        # [B, F, H, W] -> [B, F]
        return x.mean(dim=(2, 3))


def build_image_convolution(config: ImageConvolutionConfig) -> ImageConvolution:
    """Build and initialise the model that `config` describes.

    Kernels are normal with variance 2 / fan-out (He et al., "Delving Deep into Rectifiers", 2015, equation 14).
    """
    sizes = zip((config.channels, *config.widths), config.widths, strict=False)
    model = ImageConvolution(
        [ConvolutionBlock(inputs, outputs) for inputs, outputs in sizes],
        image_size=config.image_size,
        labels=len(config.labels),
        dropout=config.dropout,
    )
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return model
