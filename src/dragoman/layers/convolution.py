"""The gated convolution (Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, section 3.2)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.packing import Layout


class Windows:
    """The windows of a convolution: for each position, k neighbouring vectors concatenated, X in section 3.2, [kD].

    Vectors before the first token, after the last token and at padding are zeros, so the result for a sentence does not
    depend on the rest of the batch. All blocks use the same instance for a batch.

    Args:
        layout: layout of the batch; padding is at the end of each sentence.
        width: k, the number of vectors in a window.
        causal: True if a window ends at its own position, as in a decoder. Otherwise it is centred there, and k is odd.
    """

    exists: Bool[Tensor, "*BT k"]

    def __init__(self, layout: Layout, width: int, *, causal: bool) -> None:
        assert causal or width % 2, "a centred window must have an odd width"
        self.before = width - 1 if causal else width // 2
        self.after = width - 1 - self.before
        # [B, T] -> [B, T, 1] -> [B, T, k]: True where an element of a window is a token
        exists = torch.cat(self._shifted(layout.mask.unsqueeze(-1).float()), dim=-1)
        # [B, T, k] -> [*BT, k]
        self.exists = layout.rows(exists).bool()

    def gather(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT kD"]:
        """Return the windows of `x`, which is [B, T, D] or packed rows [N, D].

        The windows are copied, so that the convolution is one matrix product: on a CPU this is faster than torch's
        convolution, and the weight is a matrix, as the Muon optimizer needs. In packed rows, the neighbours of a token
        in its sentence are the neighbouring rows.
        """
        parts = zip(self._shifted(x), self.exists.split(1, -1), strict=True)
        # k x [..., T, D] -> [..., T, kD]; [..., T, k] -> k x [..., T, 1]
        return torch.cat([shifted * exists for shifted, exists in parts], dim=-1)

    def _shifted(self, x: Float[Tensor, "*BT D"]) -> list[Float[Tensor, "*BT D"]]:
        """Return k copies of `x`, one for each element of the window, shifted and filled with zeros at both ends."""
        # [..., T, D] -> [..., T+k-1, D] -> k x [..., T, D]
        padded = F.pad(x, (0, 0, self.before, self.after))
        return [padded.narrow(-2, shift, x.shape[-2]) for shift in range(self.before + 1 + self.after)]


class GatedConvolution(nn.Module):
    """h ← √½·(v(WX + b) + h), with the gated linear unit v([A B]) = A ⊗ σ(B) (Dauphin et al., 2016).

    X is the window of k inputs around a position (`Windows`), and W is [2D, kD] (Gehring et al. 2017, section 3.2). The
    factor √½ gives the sum the same variance as its terms (section 3.4).

    Args:
        d_model: D, width of input and output.
        width: k, the number of positions in a window.
        dropout: probability of dropping an element of the convolution's input; the residual is not dropped.
    """

    def __init__(self, d_model: int, width: int, *, dropout: float) -> None:
        super().__init__()
        self.kernel = nn.Linear(width * d_model, 2 * d_model)
        self.dropout = Dropout(dropout)

    def forward(self, h: Float[Tensor, "*BT D"], windows: Windows) -> Float[Tensor, "*BT D"]:
        """Transform all positions at once."""
        return self._gated(windows.gather(self.dropout(h)), h)

    def step(
        self, h: Float[Tensor, "B D"], past: Float[Tensor, "B P D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B P D"]]:
        """Transform one position.

        Args:
            h: the input at this position.
            past: [B, k-1, D], the k - 1 inputs before it.

        Returns:
            The output, and the `past` of the next position.
        """
        # [B, k-1, D] and [B, D] -> [B, k, D] -> [B, kD]
        window = torch.cat((past, self.dropout(h).unsqueeze(1)), dim=1)
        return self._gated(window.flatten(1), h), window[:, 1:]

    def _gated(self, window: Float[Tensor, "*BT kD"], h: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        # [..., kD] -> [..., 2D] -> [..., D]; F.glu computes v
        return (F.glu(self.kernel(window), dim=-1) + h) * math.sqrt(0.5)
