"""Layers whose weight is divided by its largest singular value (Miyato et al., "Spectral Normalization", 2018).

A linear map of spectral norm 1 lengthens no vector, so that a network of such maps changes its output slowly.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

# Power iterations of a use outside training, which starts at the vector of the last update.
EVALUATION_ITERATIONS = 3


class SpectralNorm(nn.Module):
    """σ(W), the largest singular value of a weight as a matrix [outputs, inputs], estimated by power iteration.

    Each use in training makes one iteration, from the vector of the last (algorithm 1).

    Args:
        outputs: size of the first dimension of the weight.
    """

    left: Tensor

    def __init__(self, outputs: int) -> None:
        super().__init__()
        # u, the estimate of the first left singular vector: [outputs]
        self.register_buffer("left", F.normalize(torch.randn(outputs), dim=0))

    def forward(self, weight: Float[Tensor, "O ..."]) -> Float[Tensor, "O ..."]:
        """Return W / σ(W); the gradient flows through both (equation 9)."""
        # Under autocast, σ would be rounded to 8 bits.
        with torch.autocast(weight.device.type, enabled=False):
            # [O, ...] -> [O, I]
            matrix = weight.flatten(1)
            left, right = self._iterate(matrix.detach())
            # [O] · [O, I] · [I] -> []
            return weight / left.dot(matrix @ right)

    @torch.no_grad()
    def _iterate(self, matrix: Float[Tensor, "O I"]) -> tuple[Float[Tensor, " O"], Float[Tensor, " I"]]:
        """Return the first left and right singular vectors."""
        left = self.left
        for _ in range(1 if self.training else EVALUATION_ITERATIONS):
            right = F.normalize(matrix.t() @ left, dim=0)
            left = F.normalize(matrix @ right, dim=0)
        if self.training:
            self.left.copy_(left)
        return left, right


class SpectralLinear(nn.Linear):
    """y = xWᵀ/σ(W) + b."""

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__(inputs, outputs, bias=bias)
        self.norm = SpectralNorm(outputs)

    def forward(self, x: Float[Tensor, "... I"]) -> Float[Tensor, "... O"]:
        """Return the linear map of `x`."""
        return F.linear(x, self.norm(self.weight), self.bias)


class SpectralConvolution(nn.Conv2d):
    """A convolution of odd width whose output has the size of its input; the matrix of σ is [outputs, inputs·k·k]."""

    def __init__(self, inputs: int, outputs: int, width: int) -> None:
        assert width % 2 == 1
        super().__init__(inputs, outputs, width, padding=width // 2)
        self.norm = SpectralNorm(outputs)

    def forward(self, x: Float[Tensor, "B I H W"]) -> Float[Tensor, "B O H W"]:
        """Return the convolution of `x`."""
        return F.conv2d(x, self.norm(self.weight), self.bias, padding=self.padding)


class SpectralEmbedding(nn.Embedding):
    """A table of vectors, divided by the largest singular value of the table."""

    def __init__(self, rows: int, width: int) -> None:
        super().__init__(rows, width)
        self.norm = SpectralNorm(rows)

    def forward(self, index: Tensor) -> Tensor:
        """Return the vectors of these rows."""
        return F.embedding(index, self.norm(self.weight))
