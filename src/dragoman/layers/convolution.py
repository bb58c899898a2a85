"""The gated convolution (Gehring et al., "Convolutional Sequence to Sequence Learning", 2017, section 3.2)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from dragoman.layers.dropout import Dropout
from dragoman.packing import Layout


class Windows:
    """The k vectors that a convolution sees at each position, side by side: X of section 3.2, [kD].

    Before the first token, after the last one and in padding stand zeros: a sentence gives the same numbers
    whatever it is batched with. One instance serves all blocks of a batch.

    Args:
        layout: of the batch; padding is at the end of a sentence.
        width: k.
        causal: the window ends with the position itself, for a decoder; otherwise that is its middle, and k is odd.
    """

    exists: Bool[Tensor, "*BT k"]

    def __init__(self, layout: Layout, width: int, *, causal: bool) -> None:
        assert causal or width % 2, "only an odd window has a middle"
        self.before = width - 1 if causal else width // 2
        self.after = width - 1 - self.before
        # [B, T] -> [B, T, 1] -> [B, T, k]: which places of each window hold a token
        exists = torch.cat(self._shifted(layout.mask.unsqueeze(-1).float()), dim=-1)
        # [B, T, k] -> [*BT, k]
        self.exists = layout.rows(exists).bool()

    def of(self, x: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT kD"]:
        """The windows of `x`, [B, T, D] or rows [N, D]; among rows, those beside a token are its neighbours.

        A copy for one matrix product, which on a CPU is faster than torch's convolution and has the shape that
        Muon's matrices have.
        """
        # k x [..., T, D] -> [..., T, kD]; [..., T, k] -> k x [..., T, 1]
        return torch.cat([y * held for y, held in zip(self._shifted(x), self.exists.split(1, -1), strict=True)], dim=-1)

    def _shifted(self, x: Float[Tensor, "*BT D"]) -> list[Float[Tensor, "*BT D"]]:
        """For each place of the window what stands there, zeros beyond both ends."""
        # [..., T, D] -> [..., T+k-1, D] -> k x [..., T, D]
        padded = F.pad(x, (0, 0, self.before, self.after))
        return [padded.narrow(-2, place, x.shape[-2]) for place in range(self.before + 1 + self.after)]


class GatedConvolution(nn.Module):
    """h ← √½·(v(WX + b) + h), with the gate v([A B]) = A ⊗ σ(B) (Dauphin et al., 2016).

    X are the k inputs around a position (`Windows`), W is [2D, kD] (section 3.2). √½ keeps the variance of the sum
    that of its parts (section 3.4).

    Args:
        d_model: D, width of input and output.
        width: k.
        dropout: on the input of the convolution; the residual stays whole.
    """

    def __init__(self, d_model: int, width: int, *, dropout: float) -> None:
        super().__init__()
        self.kernel = nn.Linear(width * d_model, 2 * d_model)
        self.dropout = Dropout(dropout)

    def forward(self, h: Float[Tensor, "*BT D"], windows: Windows) -> Float[Tensor, "*BT D"]:
        """All positions at once."""
        return self._gated(windows.of(self.dropout(h)), h)

    def step(
        self, h: Float[Tensor, "B D"], past: Float[Tensor, "B P D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B P D"]]:
        """One position after `past`, the k - 1 inputs before it; and the past of the next position."""
        # [B, k-1, D] and [B, D] -> [B, k, D] -> [B, kD]
        window = torch.cat((past, self.dropout(h).unsqueeze(1)), dim=1)
        return self._gated(window.flatten(1), h), window[:, 1:]

    def _gated(self, window: Float[Tensor, "*BT kD"], h: Float[Tensor, "*BT D"]) -> Float[Tensor, "*BT D"]:
        # [..., kD] -> [..., 2D] -> [..., D]; F.glu is v
        return (F.glu(self.kernel(window), dim=-1) + h) * math.sqrt(0.5)
