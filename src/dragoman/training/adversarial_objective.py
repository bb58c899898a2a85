"""The training objective of a GAN: the hinge loss of two networks against each other (Zhang et al., 2019, equation 4).

    L_D = mean max(0, 1 - D(x)) + mean max(0, 1 + D(G(z)))
    L_G = -mean D(G(z))

Both networks are updated at the same time, each by the gradient of its own loss at the current weights of both, with
two learning rates (Heusel et al., "GANs Trained by a Two Time-Scale Update Rule", 2017).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.data.picture_batches import PictureBatch, to_unit
from dragoman.models.sagan import Sagan
from dragoman.training.augmentation import augment
from dragoman.training.objective import Batches, BatchLoss
from dragoman.training.picture_losses import PictureLosses
from dragoman.training.validation import Validation

# Weight in L_D of a generated picture whose hinge loss is 0, see `AdversarialLosses`. A power of two: it is exact.
INACTIVE = 2.0**-20


def naive_adversarial_losses(
    model: Sagan, batch: PictureBatch, latent: Float[Tensor, "B Z"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Return L_D and L_G, summed over the pictures, as written in the paper.

    Of the first, only the gradients of the discriminator are meant; of the second, only those of the generator. This is
    the reference for the tests.
    """
    label = labels_of(batch)
    generated = model.generator(latent, label)
    real_score = model.discriminator(to_unit(batch.images).to(latent.dtype), label)
    discriminator = F.relu(1 - real_score) + F.relu(1 + model.discriminator(generated.detach(), label))
    return discriminator.sum(), -model.discriminator(generated, label).sum()


def labels_of(batch: PictureBatch) -> Int64[Tensor, " B"]:
    """Return the index of the label of each picture; 0 without labels."""
    if batch.labels is not None:
        return batch.labels
    return torch.zeros(len(batch), dtype=torch.int64, device=batch.images.device)


class _Opposed(torch.autograd.Function):
    """Identity, whose backward pass multiplies the gradient of each picture by a factor."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, factors: Tensor) -> Tensor:
        # Not saved as a tensor of the graph: the factors are written after this.
        ctx.factors = factors
        return images.view_as(images)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # [B, C, H, W] * [B, 1, 1, 1]
        return gradient * ctx.factors[:, None, None, None], None


@dataclass(frozen=True, kw_only=True)
class AdversarialLosses(PictureLosses):
    """Both losses of batches of pictures.

    One backward pass gives the gradients of both networks. In L_D, the gradient of the score of a generated picture is
    w = 1, or 0 if the hinge loss of the picture is 0; in L_G it is -1. The discriminator treats each picture by itself.
    Therefore the gradient of L_G at a generated picture is that of L_D, multiplied by -1/w. For w = 0, the weight
    `INACTIVE` takes the place of 0, which adds a millionth of the gradient of a picture to that of the discriminator.

    Attributes:
        latent: length of the random vectors.
        augmentations: names of augmentations of real and generated pictures.
    """

    latent: int
    augmentations: Sequence[str] = ()

    def loss(self, model: Sagan, batch: PictureBatch) -> BatchLoss:
        """Return the loss of the discriminator, whose gradient is that of both losses, each for its own network."""
        latent = torch.randn(len(batch.images), self.latent, device=batch.images.device)
        return self.loss_of(model, batch, latent)

    def loss_of(self, model: Sagan, batch: PictureBatch, latent: Float[Tensor, "B Z"]) -> BatchLoss:
        """Return the loss for these random vectors; see `loss`."""
        label, factors = labels_of(batch), torch.empty(len(latent), device=latent.device)
        generated = _Opposed.apply(model.generator(latent, label), factors)  # type: ignore[no-untyped-call]
        # 2 x [B, C, H, W] -> [2B, C, H, W]
        images = augment(torch.cat((to_unit(batch.images), generated)), self.augmentations)
        real_score, score = model.discriminator(images, torch.cat((label, label))).chunk(2)
        weight = torch.where(score.detach() > -1, 1.0, INACTIVE)
        factors.copy_(-1 / weight)
        real_loss, loss = F.relu(1 - real_score).sum(), F.relu(1 + score.detach()).sum()
        # The difference is 0; its gradient is that of the weights.
        weighted = (weight * score).sum()
        return BatchLoss(real_loss + loss + weighted - weighted.detach(), loss.new_zeros(()))


@dataclass(frozen=True, kw_only=True)
class AdversarialObjective(AdversarialLosses):
    """Training objective of a GAN.

    Attributes:
        batches: the training batches.
        validator: validates a model.
        metrics: names of the metrics that the validator measures in addition to the loss.
        validation_tokens: 0, since a validation generates no tokens.
    """

    batches: Batches[PictureBatch]
    validator: Callable[[Sagan], Validation]
    metrics: Sequence[str]
    validation_tokens: int = 0

    def validate(self, model: Sagan) -> Validation:
        """Validate a model, which is in evaluation mode."""
        return self.validator(model)


@torch.no_grad()
def mean_discriminator_loss(model: Sagan, losses: AdversarialLosses, batches: Iterable[PictureBatch]) -> float:
    """Return the mean of the discriminator's loss over pictures, with random vectors that are always the same.

    The model is in evaluation mode.
    """
    device = next(model.parameters()).device
    generator, total, count = torch.Generator().manual_seed(0), 0.0, 0
    for batch in (batch.to(device) for batch in batches):
        latent = torch.randn(len(batch.images), losses.latent, generator=generator).to(device)
        total += float(losses.loss_of(model, batch, latent).loss)
        count += len(batch.images)
    return total / count
