"""Model directories of small models of pictures with random weights, and a folder of pictures that they read."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from dragoman.models.config import ModelConfig
from dragoman.models.config.image_convolution import ImageConvolutionConfig
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.config.vision import VisionConfig
from dragoman.models.description import ModelDescription
from dragoman.models.registry import architecture_of, build_any
from dragoman.models.sagan import Sagan
from dragoman.models.storage import save_model, weights_of
from dragoman.models.vision import VisionTransformer

LABELS = ("left", "top")
GAN = SaganConfig(size=16, channels=1, labels=LABELS, width=8, latent=4, attention=8)
VISION = VisionConfig(image_size=16, channels=1, labels=LABELS, layers=2, heads=2, d_model=8, d_ff=16)
CONVOLUTION = ImageConvolutionConfig(image_size=16, channels=1, labels=LABELS, blocks=1, width=8)
# γ of the generator and of the discriminator.
GAMMAS = (0.5, -0.25)


def save_picture_model(directory: Path, config: ModelConfig) -> Path:
    """Write a model whose attention weights differ from each other, and return its directory."""
    torch.manual_seed(1)
    model = build_any(config)
    with torch.no_grad():
        if isinstance(model, Sagan) and model.generator.attention and model.discriminator.attention:
            model.generator.attention.gamma.fill_(GAMMAS[0])
            model.discriminator.attention.gamma.fill_(GAMMAS[1])
        if isinstance(model, VisionTransformer):
            for parameter in model.encoder.parameters():
                parameter.add_(torch.randn(parameter.shape) * 0.7)
    directory.mkdir()
    description = ModelDescription(architecture=architecture_of(config), model=config, trained_length=1)
    save_model(directory, description, weights_of(model))
    return directory


def save_picture_folder(folder: Path, count: int = 4) -> Path:
    """Write grey pictures of 16 x 16 pixels, `count` for each label, and return the folder."""
    draw = np.random.default_rng(1)
    for label in LABELS:
        (folder / label).mkdir(parents=True)
        for number in range(count):
            Image.fromarray(draw.integers(0, 256, (16, 16), dtype=np.uint8)).save(folder / label / f"{number}.png")
    return folder
