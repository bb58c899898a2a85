"""`PictureGenerator`: make pictures with a self-attention GAN, and show where they attend."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from dragoman.data.picture_batches import to_bytes, to_unit
from dragoman.device import select_device
from dragoman.errors import SettingsError
from dragoman.images.attention import Array, recorded_maps
from dragoman.layers.map_attention import MapAttention
from dragoman.models.config.sagan import SaganConfig
from dragoman.models.description import load_description, sagan_config
from dragoman.models.image_classifier import check_image_shape
from dragoman.models.inference import inference
from dragoman.models.sagan import Sagan
from dragoman.models.storage import load_sagan

Pictures = npt.NDArray[np.uint8]
Network = Literal["generator", "discriminator"]
# Pictures that are made, or read, at the same time.
BATCH = 64


def unit_batches(pictures: Pictures, device: torch.device) -> Iterator[Float[Tensor, "B C H W"]]:
    """Yield batches of the pictures [N, H, W, C] as numbers from -1 to 1 on the device."""
    for start in range(0, len(pictures), BATCH):
        # [B, H, W, C] -> [B, C, H, W]; copied, because torch warns of an array that is only readable
        images = torch.from_numpy(pictures[start : start + BATCH].copy()).permute(0, 3, 1, 2)
        yield to_unit(images.to(device))


@dataclass(frozen=True)
class AttendingPictures:
    """Pictures with the attention of the network that made them, or that reads them.

    Attributes:
        pictures: [N, H, W, C].
        weights: [N, h, w, h, w], the weight with which each position of the feature map (the first h, w) attends to
            each position (the last h, w); the weights of a position sum to 1.
        gamma: factor of what is attended to, see `MapAttention`.
    """

    pictures: Pictures
    weights: Array
    gamma: float


class PictureGenerator:
    """Maker of pictures, with one self-attention GAN.

    `PictureGenerator.load` reads a model directory. The same seed gives the same pictures, whatever their number.

    Args:
        model: the model, which stays on its device; it is in evaluation mode only while it runs.
        config: settings of the model.

    Example:
        >>> from dragoman.images.picture_generator import PictureGenerator
        >>> generator = PictureGenerator.load("models/digits")  # doctest: +SKIP
        >>> generator.sample(4, seed=1).shape  # doctest: +SKIP
        (4, 32, 32, 1)
    """

    def __init__(self, model: Sagan, config: SaganConfig) -> None:
        self.model = model
        self.config = config

    @classmethod
    def load(cls, directory: Path | str, *, device: str = "auto") -> Self:
        """Load the GAN of a model directory, as `dragoman images train` writes it.

        Args:
            directory: the model directory.
            device: a torch device ("cpu", "cuda:1"), or "auto": the first GPU if there is one, else the CPU.

        Raises:
            ModelError: if the directory is not that of a GAN, or is damaged.
            SettingsError: if the device is not available.
        """
        path = Path(directory)
        selected = select_device(device)
        return cls(load_sagan(path).to(selected), sagan_config(load_description(path), path))

    def sample(self, count: int, *, seed: int, labels: Sequence[str] | None = None) -> Pictures:
        """Return pictures [count, H, W, C].

        Args:
            count: number of pictures.
            seed: seed of the random vectors.
            labels: label of each picture; None for all labels in turn.

        Raises:
            SettingsError: if the model has no such label, or no labels.
        """
        return self.from_latents(self.latents(count, seed), self.label_indices(count, labels))

    def interpolate(self, rows: int, steps: int, *, seed: int, labels: Sequence[str] | None = None) -> Pictures:
        """Return rows of pictures [rows*steps, H, W, C] whose random vectors go from one to another.

        The vectors of a row are on the arc between its ends, on which they keep the length of random vectors.

        Args:
            rows: number of rows.
            steps: number of pictures in a row, at least 2.
            seed: seed of the random vectors.
            labels: label of each row; None for all labels in turn.

        Raises:
            SettingsError: if the model has no such label, or no labels.
        """
        ends = self.latents(2 * rows, seed).unflatten(0, (rows, 2))
        angle = torch.linspace(0, torch.pi / 2, steps)[None, :, None]
        # [rows, 1, Z] and [1, steps, 1] -> [rows, steps, Z] -> [rows*steps, Z]
        latents = (ends[:, :1] * angle.cos() + ends[:, 1:] * angle.sin()).flatten(0, 1)
        return self.from_latents(latents, self.label_indices(rows, labels).repeat_interleave(steps))

    def attend(self, count: int, *, seed: int, labels: Sequence[str] | None = None) -> AttendingPictures:
        """Return pictures with the attention of the generator; the arguments are those of `sample`.

        Raises:
            SettingsError: if the model has no attention, or as in `sample`.
        """
        attention = self._attention("generator")
        with recorded_maps(attention) as weights:
            pictures = self.sample(count, seed=seed, labels=labels)
        return self._attending(pictures, weights, attention)

    def attend_to(self, pictures: Pictures) -> AttendingPictures:
        """Return pictures [N, H, W, C], real or generated, with the attention of the discriminator that reads them.

        Raises:
            SettingsError: if the model has no attention.
            CorpusError: if the pictures have another size or number of channels than those of the model.
        """
        attention, device = self._attention("discriminator"), next(self.model.parameters()).device
        with inference([self.model]), recorded_maps(attention) as weights:
            for images in unit_batches(pictures, device):
                check_image_shape(images, size=self.config.size, channels=self.config.channels)
                # The label is not used before the score, so that the attention is the same for all labels.
                self.model.discriminator(images, torch.zeros(len(images), dtype=torch.int64, device=device))
        return self._attending(pictures, weights, attention)

    def map_size(self) -> int:
        """Return the height and width of the feature map with attention, in both networks.

        Raises:
            SettingsError: if the model has no attention.
        """
        if self.config.attention is None:
            raise SettingsError("the model has no attention: it was trained with model.attention = none")
        return self.config.attention

    def _attention(self, network: Network) -> MapAttention:
        self.map_size()
        attention = getattr(self.model, network).attention
        assert isinstance(attention, MapAttention)
        return attention

    def _attending(self, pictures: Pictures, weights: list[Array], attention: MapAttention) -> AttendingPictures:
        size = self.map_size()
        # [N, h*w, h*w] -> [N, h, w, h, w]
        maps = np.concatenate(weights).reshape(len(pictures), size, size, size, size)
        return AttendingPictures(pictures, maps, attention.gamma.item())

    def latents(self, count: int, seed: int) -> Float[Tensor, "N Z"]:
        """Return random vectors on the CPU; the first of a larger number are the same."""
        generator = torch.Generator().manual_seed(seed)
        # N x [Z] -> [N, Z]
        return torch.stack([torch.randn(self.config.latent, generator=generator) for _ in range(count)])

    def label_indices(self, count: int, labels: Sequence[str] | None) -> Int64[Tensor, " N"]:
        """Return the index of the label of each picture, on the CPU.

        Raises:
            SettingsError: if the model has no such label, or no labels.
        """
        if labels is None:
            return torch.arange(count) % self.config.label_rows
        assert len(labels) == count, "a label for each picture"
        known = {label: index for index, label in enumerate(self.config.labels)}
        if not known:
            raise SettingsError("the model was trained without labels: leave the labels out")
        for label in labels:
            if label not in known:
                raise SettingsError(f"the model has no label {label!r}: choose some of {', '.join(known)}")
        return torch.tensor([known[label] for label in labels], dtype=torch.int64)

    def from_latents(self, latents: Float[Tensor, "N Z"], labels: Int64[Tensor, " N"]) -> Pictures:
        """Return the pictures of these vectors and labels."""
        device = next(self.model.parameters()).device
        with inference([self.model]):
            images = [
                to_bytes(self.model.generator(latent.to(device), label.to(device))).cpu()
                for latent, label in zip(latents.split(BATCH), labels.split(BATCH), strict=True)
            ]
        # [N, C, H, W] -> [N, H, W, C]
        pictures: Pictures = torch.cat(images).permute(0, 2, 3, 1).contiguous().numpy()
        return pictures
