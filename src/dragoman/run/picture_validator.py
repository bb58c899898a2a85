"""Validation of a GAN during training: generated pictures beside pictures that were held out."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dragoman.evaluation.picture_distances import frechet_distance, kernel_distance
from dragoman.images.picture_generator import PictureGenerator, Pictures
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.sagan import Sagan
from dragoman.picture_page.grid import picture_grid
from dragoman.picture_page.pixels import save_png
from dragoman.training.validation import Validation

METRICS = ("frechet_distance", "kernel_distance")
# Seed of the random vectors of all validations; number of pictures that are drawn, in how many columns, how large.
SEED, DRAWN, COLUMNS, SCALE = 12345, 64, 8, 2

# (pictures [N, H, W, C]) -> features [N, F]
Features = Callable[[Pictures], npt.NDArray[np.floating]]


@dataclass(frozen=True)
class PictureValidator:
    """Compares generated pictures with held-out ones by the features of a classifier, and draws some of them.

    Attributes:
        config: settings of the model.
        real: features of the held-out pictures, [N, F].
        features: returns the features of pictures.
        pictures: number of pictures to generate.
        samples: directory of the drawn pictures, the latest of which is latest.png.
        mean_loss: returns the loss of the discriminator on held-out pictures.
    """

    config: SaganConfig
    real: npt.NDArray[np.floating]
    features: Features
    pictures: int
    samples: Path
    mean_loss: Callable[[Sagan], float]

    def __call__(self, model: Sagan) -> Validation:
        """Validate a model, which is in evaluation mode."""
        generated = PictureGenerator(model, self.config).sample(self.pictures, seed=SEED)
        self.samples.mkdir(exist_ok=True)
        save_png(picture_grid(generated[:DRAWN], COLUMNS, scale=SCALE), self.samples / "latest.png")
        features = self.features(generated)
        return Validation(
            loss=self.mean_loss(model),
            metrics={
                "frechet_distance": frechet_distance(self.real, features),
                "kernel_distance": kernel_distance(self.real, features),
            },
            likelihood=False,
        )
