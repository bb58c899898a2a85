"""Batch normalisation whose gain and bias depend on a label (Dumoulin et al., 2017; de Vries et al., 2017)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class ConditionalBatchNorm(nn.Module):
    """y = gain[label]·(x - mean)/√(variance + ε) + bias[label], over the batch and the positions of each channel.

    Args:
        channels: width of the feature map.
        labels: number of labels; 1 for ordinary batch normalisation.
    """

    def __init__(self, channels: int, labels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.gain = nn.Parameter(torch.ones(labels, channels))
        self.bias = nn.Parameter(torch.zeros(labels, channels))

    def forward(self, x: Float[Tensor, "B C H W"], label: Int[Tensor, " B"]) -> Float[Tensor, "B C H W"]:
        """Normalise a feature map for pictures with these labels."""
        # [B, C] -> [B, C, 1, 1]
        gain, bias = (table[label].to(x.dtype)[:, :, None, None] for table in (self.gain, self.bias))
        return torch.addcmul(bias, self.norm(x), gain)
