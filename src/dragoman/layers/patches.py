"""Images as sequences of patches."""

from jaxtyping import Float
from torch import Tensor, nn


class PatchEmbedding(nn.Module):
    """A linear map of each patch of P x P pixels (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2020, eq. 1).

    It equals a convolution with kernels and strides of P x P pixels, and no overlap. The weight is a matrix
    [D, C·P·P], as the Muon optimizer needs: the kernels [D, C, P, P] of that convolution, flattened.

    Args:
        channels: C, the number of numbers for each pixel.
        patch: P, height and width of a patch in pixels.
        d_model: D, width of the embeddings.

    Example:
        >>> import torch
        >>> PatchEmbedding(channels=3, patch=4, d_model=16)(torch.zeros(2, 3, 8, 12)).shape
        torch.Size([2, 6, 16])
    """

    def __init__(self, channels: int, patch: int, d_model: int) -> None:
        super().__init__()
        self.channels = channels
        self.patch = patch
        self.projection = nn.Linear(channels * patch**2, d_model)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        """Return the embeddings of the N = H·W / P² patches, row by row; height and width are multiples of P."""
        # [B, C, H, W] -> [B, C, H/P, P, W/P, P] -> [B, H/P, W/P, C, P, P]
        x = images.unflatten(3, (-1, self.patch)).unflatten(2, (-1, self.patch)).permute(0, 2, 4, 1, 3, 5)
        # [B, H/P, W/P, C, P, P] -> [B, N, C*P*P] -> [B, N, D]
        return self.projection(x.flatten(3).flatten(1, 2))
