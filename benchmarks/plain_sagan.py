"""A self-attention GAN written plainly in torch, with a training loop as public implementations have it.

fp32, torch's own spectral normalisation, attention as two batched products, and updates in turn: the discriminator on
a batch and on generated pictures, then the generator on new ones. It is the peer of `benchmarks/images.py`.
"""

import itertools
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm


@dataclass(frozen=True)
class Shape:
    """Sizes of a GAN; the feature maps have `widths` channels, from those of 4x4 to those of the pictures."""

    widths: tuple[int, ...]
    channels: int
    labels: int
    latent: int
    attention: int


class Attention(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = spectral_norm(nn.Conv2d(width, width // 8, 1, bias=False))
        self.key = spectral_norm(nn.Conv2d(width, width // 8, 1, bias=False))
        self.value = spectral_norm(nn.Conv2d(width, width // 8, 1, bias=False))
        self.output = spectral_norm(nn.Conv2d(width // 8, width, 1, bias=False))
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        batch, _, height, width = x.shape
        query, key, value = (f(x).view(batch, -1, height * width) for f in (self.query, self.key, self.value))
        weights = torch.bmm(query.permute(0, 2, 1), key).softmax(-1)
        attended = torch.bmm(value, weights.permute(0, 2, 1)).view(batch, -1, height, width)
        return self.gamma * self.output(attended) + x


class ConditionalNorm(nn.Module):
    def __init__(self, width: int, labels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(width, affine=False)
        self.gain = nn.Embedding(labels, width)
        self.bias = nn.Embedding(labels, width)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        return self.gain(label)[:, :, None, None] * self.norm(x) + self.bias(label)[:, :, None, None]


class GeneratorBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, labels: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = ConditionalNorm(inputs, labels), ConditionalNorm(outputs, labels)
        self.first = spectral_norm(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = spectral_norm(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(inputs, outputs, 1))

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        h = self.first(F.interpolate(F.relu(self.first_norm(x, label)), scale_factor=2))
        h = self.second(F.relu(self.second_norm(h, label)))
        return h + self.skip(F.interpolate(x, scale_factor=2))


class DiscriminatorBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, *, halved: bool, activated: bool) -> None:
        super().__init__()
        self.first = spectral_norm(nn.Conv2d(inputs, outputs, 3, padding=1))
        self.second = spectral_norm(nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = spectral_norm(nn.Conv2d(inputs, outputs, 1))
        self.halved, self.activated = halved, activated

    def forward(self, x: Tensor) -> Tensor:
        y = self.second(F.relu(self.first(F.relu(x) if self.activated else x))) + self.skip(x)
        return F.avg_pool2d(y, 2) if self.halved else y


class Generator(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        widths = shape.widths
        self.start = spectral_norm(nn.Linear(shape.latent, 16 * widths[0]))
        self.blocks = nn.ModuleList(GeneratorBlock(a, b, shape.labels) for a, b in itertools.pairwise(widths))
        self.attended = shape.attention
        self.attention = Attention(widths[(shape.attention // 4).bit_length() - 1])
        self.norm = ConditionalNorm(widths[-1], shape.labels)
        self.output = spectral_norm(nn.Conv2d(widths[-1], shape.channels, 3, padding=1))

    def forward(self, latent: Tensor, label: Tensor) -> Tensor:
        x = self.start(latent).view(len(latent), -1, 4, 4)
        for block in self.blocks:
            x = block(x, label)
            if x.shape[2] == self.attended:
                x = self.attention(x)
        return torch.tanh(self.output(F.relu(self.norm(x, label))))


class Discriminator(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        widths = [shape.channels, *shape.widths[-2::-1], shape.widths[0]]
        self.blocks = nn.ModuleList(
            DiscriminatorBlock(a, b, halved=i < len(widths) - 2, activated=i > 0)
            for i, (a, b) in enumerate(itertools.pairwise(widths))
        )
        self.attended = shape.attention
        self.attention = Attention(shape.widths[(shape.attention // 4).bit_length() - 1])
        self.output = spectral_norm(nn.Linear(widths[-1], 1))
        self.labels = spectral_norm(nn.Embedding(shape.labels, widths[-1]))

    def forward(self, x: Tensor, label: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
            if x.shape[2] == self.attended:
                x = self.attention(x)
        features = F.relu(x).sum(dim=(2, 3))
        return self.output(features).squeeze(1) + (self.labels(label) * features).sum(1)


class PlainTrainer:
    """Updates of both networks in turn.

    Args:
        shape: sizes of the networks.
        images: pictures [N, C, H, W] from -1 to 1.
        labels: their labels [N].
        batch: pictures in a batch.
    """

    def __init__(self, shape: Shape, images: Tensor, labels: Tensor, batch: int) -> None:
        self.generator, self.discriminator = Generator(shape), Discriminator(shape)
        self.images, self.labels, self.batch, self.shape = images, labels, batch, shape
        self.generator_optimizer = torch.optim.Adam(self.generator.parameters(), lr=1e-4, betas=(0.0, 0.9))
        self.discriminator_optimizer = torch.optim.Adam(self.discriminator.parameters(), lr=4e-4, betas=(0.0, 0.9))

    def generated(self) -> tuple[Tensor, Tensor]:
        label = torch.randint(self.shape.labels, (self.batch,))
        return self.generator(torch.randn(self.batch, self.shape.latent), label), label

    def run(self, updates: int) -> None:
        """Make updates."""
        for _ in range(updates):
            chosen = torch.randint(len(self.images), (self.batch,))
            real, label = self.images[chosen], self.labels[chosen]
            self.discriminator_optimizer.zero_grad()
            F.relu(1 - self.discriminator(real, label)).mean().backward()
            fake, fake_label = self.generated()
            F.relu(1 + self.discriminator(fake.detach(), fake_label)).mean().backward()
            self.discriminator_optimizer.step()
            self.generator_optimizer.zero_grad()
            fake, fake_label = self.generated()
            (-self.discriminator(fake, fake_label).mean()).backward()
            self.generator_optimizer.step()
