"""The losses of a GAN: one backward pass gives the gradients of both networks."""

import pytest
import torch

from dragoman.data.picture_batches import PictureBatch
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.sagan import Sagan, build_sagan
from dragoman.training.adversarial_objective import AdversarialLosses, labels_of, naive_adversarial_losses
from dragoman.training.config import TrainingConfig
from dragoman.training.optimizers.table import OPTIMIZERS

CONFIG = SaganConfig(size=16, channels=1, width=8, latent=10, attention=8, labels=("a", "b", "c"))


def model_with(score_bias: float) -> Sagan:
    """Return a model in float64 whose scores are shifted, so that some hinge losses are 0."""
    torch.manual_seed(1)
    model = build_sagan(CONFIG).double()
    for network in (model.generator, model.discriminator):
        assert network.attention is not None
        torch.nn.init.constant_(network.attention.gamma, 0.3)
    torch.nn.init.constant_(model.discriminator.output.bias, score_bias)
    # In evaluation mode, no power iteration changes σ between the passes.
    return model.eval()


def batch() -> PictureBatch:
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(256, (8, 1, 16, 16), dtype=torch.uint8, generator=generator)
    return PictureBatch(images=images, labels=torch.arange(8) % 3)


@pytest.mark.parametrize("score_bias", [0.0, -1.3, -3.0, 3.0])
def test_the_gradients_are_those_of_the_paper(score_bias: float) -> None:
    model = model_with(score_bias)
    latent = torch.randn(8, CONFIG.latent, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    discriminator_loss, generator_loss = naive_adversarial_losses(model, batch(), latent)
    expected = {
        "discriminator": torch.autograd.grad(
            discriminator_loss, list(model.discriminator.parameters()), retain_graph=True
        ),
        "generator": torch.autograd.grad(generator_loss, list(model.generator.parameters())),
    }
    result = AdversarialLosses(latent=CONFIG.latent).loss_of(model, batch(), latent)
    assert result.loss.item() == pytest.approx(discriminator_loss.item(), rel=1e-6)
    assert result.cost == 0
    result.loss.backward()
    for network, gradients in expected.items():
        for (name, parameter), gradient in zip(getattr(model, network).named_parameters(), gradients, strict=True):
            scale = max(float(gradient.abs().max()), 1e-3)
            torch.testing.assert_close(parameter.grad, gradient, atol=1e-5 * scale, rtol=1e-5, msg=name)


def test_some_hinge_losses_of_the_first_test_are_0_and_some_are_not() -> None:
    model = model_with(-1.3)
    latent = torch.randn(8, CONFIG.latent, dtype=torch.double, generator=torch.Generator().manual_seed(2))
    score = model.discriminator(model.generator(latent, labels_of(batch())), labels_of(batch()))
    assert 0 < (score > -1).sum() < 8


def test_the_two_networks_have_two_learning_rates() -> None:
    model = build_sagan(CONFIG)
    training = TrainingConfig(steps=1, optimizer="two-time-scale", adam_betas=(0.0, 0.9), discriminator_rate=4.0)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizers = OPTIMIZERS["two-time-scale"](model, training, "fp32")
    AdversarialLosses(latent=CONFIG.latent).loss(model, batch()).loss.backward()
    optimizers.step(1e-4, torch.tensor(True))
    # The first update of Adam changes every element with a gradient by the learning rate.
    for name, parameter in model.named_parameters():
        change = (parameter.detach() - before[name]).abs().max()
        if "attention" not in name:
            rate = 4e-4 if name.startswith("discriminator") else 1e-4
            assert change == pytest.approx(rate, rel=0.05), name
    assert set(optimizers.named()) == {"optimizer", "discriminator"}
